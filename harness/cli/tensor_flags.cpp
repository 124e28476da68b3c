#include "harness/cli/tensor_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/plan/builtin_axes.h"
#include "harness/tensors/safetensors.h"

namespace attnlab {

void add_tensor_flags(CLI::App& command, SweepFlags& sweep, SaveFlags& save) {
  command
      .add_option("--input", sweep.input, "Your own q, k, v and perhaps do, laid out as --layout")
      ->type_name("FILE.safetensors")
      ->group("Tensors");
  command.add_option("--save", save.save, "Write inputs and outputs; one case, one kernel")
      ->type_name("FILE.safetensors")
      ->group("Tensors");
  command.add_flag("--save-dropout", save.dropout, "With --save: the dropout mask too")
      ->group("Tensors");
}

void apply_input(Sweep& sweep, const SweepFlags& flags) {
  if (flags.input.empty()) return;
  if (!flags.sweep_file.empty()) {
    throw UsageError(
        fmt::format("--input: the sizes come from the file, so there is no place for "
                    "the sweep {}: leave one of them out",
                    flags.sweep_file));
  }
  for (std::size_t i = 0; i < flags.axes.size(); ++i) {
    const std::string& axis = builtin_grammars().rows()[i].help.name;
    if (!flags.axes[i] || !is_axis_of_input_file(axis)) continue;
    const bool is_dtype = axis == "dtype";
    if (is_dtype && is_quantised(sweep)) continue;
    throw UsageError(fmt::format("{}: --input's file says this itself: leave the flag out{}",
                                 flag_of(axis),
                                 is_dtype ? ", or take e4m3 alone, to which it is quantised" : ""));
  }
  try {
    use_input_file(sweep, flags.input);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--input: {}", error.what()));
  }
}

std::optional<TensorSaver> make_saver(const SaveFlags& flags, const std::vector<Case>& cases,
                                      std::uint64_t memory_limit) {
  if (flags.save.empty()) {
    if (flags.dropout) throw UsageError("--save-dropout: adds to --save FILE, which is missing");
    return std::nullopt;
  }
  std::size_t points = 0;
  for (const Case& work : cases) points += work.competitors.size();
  if (points != 1) {
    throw UsageError(
        fmt::format("--save: needs exactly one case and one kernel, but this run has "
                    "{} with {}: give each axis one value and name one --kernel "
                    "(--dry-run lists the points)",
                    count_of(cases.size(), "case"), count_of(points, "point")));
  }
  const Problem& problem = cases[0].problem;
  if (flags.dropout) {
    const std::uint64_t bytes = tensor_bytes(
        "U8", std::vector{problem.batch, problem.num_heads_q, problem.seqlen_q, problem.seqlen_k},
        "--save-dropout");
    if (bytes > memory_limit) {
      throw UsageError(fmt::format(
          "--save-dropout: the mask needs {:.3g} GiB of {:.3g} available: shorten the sequences",
          static_cast<double>(bytes) / 0x1p30, static_cast<double>(memory_limit) / 0x1p30));
    }
  }
  try {
    return TensorSaver(flags.save, flags.dropout ? SaveDropout::yes : SaveDropout::no);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--save: {}", error.what()));
  }
}

bool is_same_file(const std::string& one, const std::string& other) {
  const auto place = [](const std::string& file) {
    std::error_code error;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(file), error);
  };
  return place(one) == place(other);
}

void refuse_same_file(const std::pair<std::string, std::string>& one,
                      const std::pair<std::string, std::string>& other) {
  if (one.second.empty() || other.second.empty() || !is_same_file(one.second, other.second)) return;
  throw UsageError(fmt::format("{}: {} is also the file of {}, which would be lost: name another",
                               one.first, one.second, other.first));
}

}  // namespace attnlab
