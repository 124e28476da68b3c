#include "harness/repro.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/axes.h"
#include "harness/axis_values.h"

namespace attnlab {

std::string repro_command(const Case& work, const Competitor& competitor, const Device& device,
                          const Protocol& protocol) {
  const Problem& problem = work.problem;
  std::string command = fmt::format("attnlab run --backend {}", to_string(competitor.backend));
  if (competitor.backend == Backend::cpu) {
    command += fmt::format(" --isa {} --threads {}", device.isa, device.threads);
  }
  command += fmt::format(
      " --kernel {} --pass {} --dtype {} --layout {} --batch {} --heads {} --heads-kv {} "
      "--head-dim {} --mask {} --lengths {} --dropout {} --seqlen-q {} --seqlen-k {} --input-kind "
      "{} --seed {}",
      competitor.kernel, to_string(problem.pass), to_string(problem.dtype),
      to_string(problem.layout), problem.batch, problem.num_heads_q, problem.num_heads_kv,
      problem.head_dim, to_string(problem.mask), text_of(problem.lengths), problem.dropout,
      problem.seqlen_q, problem.seqlen_k, to_string(work.input_kind), work.seed);
  const Config& config = competitor.config;
  if (config.contains("block_m") && config.contains("block_n")) {
    command += fmt::format(" --block {}x{}", config.get("block_m"), config.get("block_n"));
  }
  for (const ConfigAxisRow& row : config_axis_rows()) {
    const std::string name = row.help.name;
    if (!config.contains(name)) continue;
    std::string flag = name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    command += fmt::format(" --{} {}", flag, config.get(name));
  }
  const std::string deviations = to_string(protocol);
  if (!deviations.empty()) command += " --protocol " + deviations;
  return command;
}

}  // namespace attnlab
