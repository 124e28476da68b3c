// Implements attnlab merge, which makes one record file of several.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/tensor_flags.h"
#include "harness/cli/verbs.h"
#include "harness/measure/noise.h"
#include "harness/record/record_file.h"
#include "harness/record/repro.h"
#include "harness/report/merging.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(Each point of a device is written once. Where files hold several records of it, as where a
scheduler ran a task twice, the latest by its time stamp stands, as in tables; the others are
counted and named, copies of one record only counted. Half-written lines are left out.

What a reader should know is said, and ends the merge with 5; FILE is written all the same:
  disagreement   two records of a point differ in status, or in time by
                 more than three times the noise between sessions of such
                 a device (attnlab calibrate, on this machine) and by 1 %;
                 where that noise is not known, by more than 5 %
  split case     its kernels did not all take turns together: they are of
                 several runs, or their time.contenders differ
  missing        a shard, or points of one: the command that began it runs
                 them, and so does attnlab run SWEEP --resume FILE

FILE of --out must be new, or one of those that are merged.

Examples:
  attnlab merge quick.1.jsonl quick.2.jsonl --out quick.jsonl
  attnlab merge results/fa3.*of8.jsonl --out results/fa3.jsonl
  attnlab merge all.jsonl today.jsonl --out all.jsonl

Exit codes: 0 whole, 2 bad flags or files, 3 the output could not be written, 5 merged, and
something of the above was said.)";

struct MergeFlags {
  std::vector<std::string> files;
  std::string out;
};

// Answers from the calibrations of this machine, each read once.
class StoredNoise {
 public:
  double threshold(const RecordJson& record) {
    constexpr double kUnknown = 0.05;  // as attnlab compare
    const RecordJson driver = at(record, {"device", "cuda", "driver"});
    const Device device = {.name = record.at("device").at("name").get<std::string>(),
                           .driver = driver.is_string() ? driver.get<std::string>() : ""};
    auto found = sessions_.find(device.name + device.driver);
    if (found == sessions_.end()) {
      found = sessions_.emplace(device.name + device.driver, load_noise(device)).first;
    }
    const RecordJson& time = record.at("time");
    const bool is_settled = at(record, {"protocol", "regime"}) == to_string(Regime::settled);
    return noise_threshold(sessions_for(found->second, time.at("n").get<int>()), NoiseOf::sessions,
                           is_settled ? Regime::settled : Regime::burst,
                           time.at("median_s").get<double>(), kUnknown);
  }

 private:
  std::map<std::string, std::vector<NoiseSession>> sessions_;
};

// Locks the output if it exists, so that no run that appends to it meanwhile loses records.
std::optional<RecordFile> take_output(const MergeFlags& flags) {
  if (!std::filesystem::exists(flags.out)) return std::nullopt;
  const bool is_input = std::ranges::any_of(
      flags.files, [&](const std::string& file) { return is_same_file(file, flags.out); });
  if (!is_input) {
    throw UsageError(
        fmt::format("--out: {} is there already: name it among the files to merge, too, or name "
                    "another",
                    flags.out));
  }
  return std::optional<RecordFile>(std::in_place, flags.out);
}

std::vector<MergeInput> read_inputs(const std::vector<std::string>& files) {
  std::vector<MergeInput> inputs;
  std::vector<std::string> warnings;
  for (const std::string& file : files) inputs.push_back({file, read_records(file, warnings)});
  for (const std::string& warning : warnings) print_to(stderr, "attnlab merge: {}\n", warning);
  const bool has_some =
      std::ranges::any_of(inputs, [](const MergeInput& input) { return !input.records.empty(); });
  if (!has_some) throw UsageError("the files hold no records");
  return inputs;
}

int run(const MergeFlags& flags) try {
  const std::optional<RecordFile> held = take_output(flags);
  const std::vector<MergeInput> inputs = read_inputs(flags.files);
  StoredNoise noise;
  const Merged merged =
      merge_records(inputs, [&](const RecordJson& record) { return noise.threshold(record); });
  try {
    write_records(merged.records, flags.out);
  } catch (const UsageError& error) {  // it comes of full disks, read-only folders
    throw std::runtime_error(error.what());
  }
  print_to(stdout, "{}", render_merge(merged));
  const std::string copies =
      merged.copies == 0 ? "" : fmt::format(" ({} of them there twice)", merged.copies);
  print_to(stdout, "{}",
           wrap(fmt::format("{} of {} in {}{}.", count_of(merged.records.size(), "point"),
                            count_of(inputs.size(), "file"), shell_word(flags.out), copies)));
  const bool is_whole =
      merged.disagreements.empty() && merged.split_cases.empty() && merged.missing.empty();
  return is_whole ? kExitGood : kExitAmbiguous;
} catch (const nlohmann::json::exception& error) {
  throw UsageError(fmt::format(
      "a record lacks a field or has it in another form: {}; attnlab run writes it", error.what()));
}

}  // namespace

Verb add_merge_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("merge", "Make one record file of several");
  command->footer(kFooter);
  const auto flags = std::make_shared<MergeFlags>();
  command->add_option("files", flags->files, "Record files, as attnlab run writes them")
      ->required()
      ->type_name("FILE");
  command->add_option("--out", flags->out, "What gets the records")
      ->required()
      ->type_name("FILE")
      ->group("Output");
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
