// Implements attnlab compare, which says what changed between two sets of records.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/verbs.h"
#include "harness/record/record_file.h"
#include "harness/report/comparison.h"
#include "harness/report/comparison_report.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    "Points are paired by problem, kernel, config, inputs, seed, cache and regime. A point is\n"
    "slower only if all of this holds: Mann and Whitney's test of its samples, with Holm's\n"
    "adjustment over all points, gives at most 0.05; the bootstrap interval of the ratio of the\n"
    "medians lies above 1; the change is larger than --threshold; and where both sides have a\n"
    "clock, it is in cycles, too. It is the same (or faster, not surely) where that interval ends\n"
    "below the threshold and cycles do not say otherwise, and else ambiguous, as are times of a\n"
    "clock that did not settle, of fewer than five samples, and of outputs of which a sample was\n"
    "verified.\n"
    "\n"
    "Beside times: relative errors and bytes, by 1 %; peak memory, registers, spills and shared\n"
    "memory, exactly. More of them is worse, and what only the base has is ambiguous; --fail-on\n"
    "chooses what counts. Where both say which kernels ran, more launches of a copy, cast or fill\n"
    "beyond what the operation needs are worse, too (kernels). Bytes of dram vary between equal\n"
    "runs and are not compared.\n"
    "\n"
    "Another device, driver or protocol is an error: --across compares the two all the same,\n"
    "shows what differs, and never ends with 0 or 4.\n"
    "\n"
    "Examples:\n"
    "  attnlab compare before.jsonl after.jsonl\n"
    "  attnlab compare results/nvidia-h100 new/ --fail-on errors,bytes,memory,spills\n"
    "  attnlab compare before.jsonl after.jsonl --threshold 2 --format markdown\n"
    "\n"
    "Exit codes, the first that applies:\n"
    "  2  bad flags or files; another device, driver or protocol\n"
    "  1  a point of NEW fails its verification\n"
    "  3  a point of NEW was not measured or is invalid, or nothing could be compared\n"
    "  5  --across\n"
    "  4  a point is slower, or another value is worse\n"
    "  5  ambiguous: what cannot be told, points that are missing or there twice\n"
    "  0  same or faster, everything was measured";

struct CompareFlags {
  std::string base, now;
  double threshold_percent = 5.0;
  std::string fail_on;
  bool across = false;
  std::string format = "table";
};

// Reads the records of a file, or of all files of a folder in the order of their names.
std::vector<nlohmann::ordered_json> read_side(const std::filesystem::path& place,
                                              std::vector<std::string>& warnings) {
  std::vector<std::filesystem::path> files = {place};
  if (std::filesystem::is_directory(place)) {
    files.clear();
    for (const auto& entry : std::filesystem::directory_iterator(place)) {
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    }
    std::ranges::sort(files);
  }
  std::vector<nlohmann::ordered_json> records;
  for (const auto& file : files) {
    for (auto& record : read_records(file, warnings)) records.push_back(std::move(record));
  }
  if (records.empty()) {
    throw UsageError(fmt::format("{}: holds no records; of a folder those in its own *.jsonl count",
                                 place.string()));
  }
  return records;
}

// Throws UsageError for a record that lacks something that every record has.
void check_complete(const std::vector<nlohmann::ordered_json>& records, const std::string& place) {
  for (const auto& record : records) {
    for (const char* key : {"id", "kernel", "backend", "config", "input_kind", "seed", "status",
                            "problem", "device", "protocol", "time"}) {
      if (record.contains(key)) continue;
      throw UsageError(fmt::format("{}: the record of {} has no '{}', which attnlab run writes",
                                   place, record.value("id", "a point without an id"), key));
    }
  }
}

int run(const CompareFlags& flags) {
  CompareOptions options;
  if (!(flags.threshold_percent > 0.0 && flags.threshold_percent < 100.0)) {
    throw UsageError(fmt::format("--threshold: {} is not a number of percent above 0 and below 100",
                                 flags.threshold_percent));
  }
  options.threshold = flags.threshold_percent / 100.0;
  options.across = flags.across;
  if (!flags.fail_on.empty()) {
    options.fail_on = parse_judged(split_list(flags.fail_on, "--fail-on"), "--fail-on");
  }
  const TableFormat format = parse_format(flags.format, "--format");
  std::vector<std::string> warnings;
  const auto base = read_side(flags.base, warnings), now = read_side(flags.now, warnings);
  for (const std::string& warning : warnings) print_to(stderr, "attnlab compare: {}\n", warning);
  check_complete(base, flags.base);
  check_complete(now, flags.now);
  try {
    const Comparison comparison = compare(base, now, options);
    print_to(stdout, "{}", render_comparison(comparison, options, format));
    return exit_code(comparison, options);
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(
        fmt::format("{} or {}: a record lacks a field or has it in another form: {}; attnlab run "
                    "writes it",
                    flags.base, flags.now, error.what()));
  }
}

}  // namespace

Verb add_compare_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("compare", "Show what changed between two record files");
  command->footer(kFooter);
  const auto flags = std::make_shared<CompareFlags>();
  command->add_option("base", flags->base, "A record file, or a folder of them")
      ->required()
      ->type_name("FILE");
  command->add_option("new", flags->now, "The same points, measured later")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--threshold", flags->threshold_percent, "Ignore a smaller change of time (5)")
      ->type_name("PERCENT")
      ->group("Judgement");
  add_fail_on(*command, flags->fail_on);
  command->add_flag("--across", flags->across, "Also other devices, drivers and protocols")
      ->group("Judgement");
  add_table_format(*command, flags->format);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
