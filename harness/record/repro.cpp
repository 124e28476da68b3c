#include "harness/record/repro.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "harness/plan/axes.h"
#include "harness/plan/axis_values.h"
#include "harness/plan/peer_names.h"
#include "harness/tensors/safetensors.h"

namespace attnlab {

std::string shell_word(const std::string& word) {
  const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::filesystem::path path_from_here(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (!path.is_absolute() || error) return path;
  const std::filesystem::path from_here = path.lexically_proximate(here);
  const std::string text = from_here.string();
  return text.starts_with("../../") ? path.filename() : from_here;
}

std::string portable_word(const std::string& word) {
  const bool is_flag = word.starts_with('-');
  const std::size_t at = is_flag ? word.find('=') : std::string::npos;
  const std::size_t path = at == std::string::npos ? 0 : at + 1;
  return shell_word(word.substr(0, path) + path_from_here(word.substr(path)).string());
}

std::string repro_command(const Case& work, const Competitor& competitor, const Device& device,
                          const Protocol& protocol) {
  const Problem& problem = work.problem;
  std::string command = fmt::format("attnlab run --backend {}", to_string(competitor.backend));
  if (competitor.backend == Backend::cpu) {
    command += fmt::format(" --isa {} --threads {}", device.isa, device.threads);
  }
  command +=
      fmt::format(" {} {}", is_peer(competitor.kernel) ? "--peer" : "--kernel", competitor.kernel);
  command +=
      fmt::format(" --pass {} --layout {} --mask {} --dropout {} --softmax-scale {} --seed {}",
                  to_string(problem.pass), to_string(problem.layout), to_string(problem.mask),
                  problem.dropout, problem.softmax_scale, work.seed);
  if (work.input != nullptr) {
    command += " --input " + portable_word(work.input->file.path.string());
    if (problem.is_e4m3()) command += " --dtype e4m3";  // all else is the file's own
  } else {
    command += fmt::format(
        " --dtype {} --batch {} --heads {} --heads-kv {} --head-dim {} --lengths {} --seqlen-q {} "
        "--seqlen-k {} --input-kind {}",
        to_string(problem.dtype), problem.batch, problem.num_heads_q, problem.num_heads_kv,
        problem.head_dim, text_of(problem.lengths), problem.seqlen_q, problem.seqlen_k,
        to_string(work.input_kind));
  }
  if (problem.is_e4m3()) {
    command +=
        fmt::format(" --quant {} --quant-v {} --rotate {}", to_string(problem.quantisation.qk),
                    to_string(problem.quantisation.v), problem.quantisation.rotate ? 1 : 0);
  }
  const Config& config = competitor.config;
  const auto block = [&](const char* axis) {  // a missing one may be anything
    return config.contains(axis) ? config.get(axis) : 0;
  };
  if (config.contains("block_m") || config.contains("block_n")) {
    command += fmt::format(" --block {}x{}", block("block_m"), block("block_n"));
  }
  for (const auto& [name, value] : config.values()) {
    if (!is_block_axis(name)) command += fmt::format(" {} {}", flag_of(name), value);
  }
  const std::string deviations = to_string(protocol, device);
  if (!deviations.empty()) command += " --protocol " + deviations;
  return command;
}

}  // namespace attnlab
