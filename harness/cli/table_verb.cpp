// Implements attnlab table, which makes any table from record files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/verbs.h"
#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "harness/report/evidence_report.h"
#include "harness/report/fields.h"
#include "harness/report/shard_progress.h"
#include "harness/report/table.h"

namespace attnlab {
namespace {

constexpr const char* kDetails =
    "Without --rows, the axes that vary are the rows; without --cols, the kernels are the "
    "columns.\n"
    "Without either, csv and json list one line or object a point, with every field.\n"
    "\n"
    "~ marks what comes from a median whose 95 % interval passes +-2 %; (4 of 30) says that a\n"
    "time limit ended the timing after 4 of 30 rounds. Fields of both: ci, n, rounds_asked.\n"
    "\n"
    "--speedup-over NAME shows how many times as fast as NAME, a kernel or peer, each one is on\n"
    "the same case; of several tiles of NAME the fastest counts.\n"
    "\n"
    "--best layout shows each competitor in the layout in which it is faster, and names it: "
    "layouts\n"
    "of one problem are then one row, and --speedup-over compares both sides at their best.\n"
    "\n"
    "--progress shows for each shard of a sweep (attnlab run --shard) the points that are done "
    "and\n"
    "those that failed, points a minute and the time left, by the predicted time of the rest.\n"
    "\n"
    "Fields (of --rows, --cols, --value and --where):\n";

struct TableFlags {
  std::vector<std::string> files;
  std::string rows, cols, values, speedup_over;
  std::vector<std::string> where;
  std::string format = "table";
  std::string best;
  bool evidence = false;
  bool progress = false;
};

std::string footer() {
  std::string text = kDetails;
  for (const FieldHelp& field : field_help()) {
    text += fmt::format("  {:<22}{}\n", field.name, field.summary);
  }
  return text +
         "\n"
         "Examples:\n"
         "  attnlab table results/quick.jsonl\n"
         "  attnlab table results/*.jsonl --rows seqlen,mask --cols kernel,block --value time_ms\n"
         "  attnlab table results/*.jsonl --where kernel=v2 --rows seqlen --cols block --value "
         "gflops\n"
         "  attnlab table results/nvidia-h200/fa2.jsonl --speedup-over torch:flash --best layout\n"
         "  attnlab table before.jsonl after.jsonl --cols kernel,commit --value time_ms,ci\n"
         "  attnlab table results/*.jsonl --rows seqlen,pass --value "
         "requested_mib,l2_mib,dram_mib\n"
         "  attnlab table results/quick.jsonl --evidence --where kernel=naive\n"
         "  attnlab table results/quick.*of8.jsonl --progress\n"
         "  attnlab table results/quick.jsonl --format csv > quick.csv";
}

// Refuses layout as a field or condition of --best: each competitor is left with one layout.
void check_best(const std::string& best, const TableOptions& options) {
  if (best != "layout") throw UsageError(fmt::format("--best: '{}' is not layout", best));
  const auto names_layout = [](const std::vector<std::string>& fields) {
    return std::ranges::find(fields, "layout") != fields.end();
  };
  const bool chooses = std::ranges::any_of(
      options.where, [](const auto& condition) { return condition.first == "layout"; });
  if (names_layout(options.rows) || names_layout(options.cols) || chooses) {
    throw UsageError("--best layout: leave layout out of --rows, --cols and --where");
  }
}

TableOptions make_options(const TableFlags& flags) {
  TableOptions options;
  options.rows = split_list(flags.rows, "--rows");
  options.cols = split_list(flags.cols, "--cols");
  options.values = split_list(flags.values, "--value");
  options.format = parse_format(flags.format, "--format");
  options.speedup_over = flags.speedup_over;
  const bool lacks_speedup = std::ranges::find(options.values, "speedup") == options.values.end();
  if (!flags.speedup_over.empty() && !options.values.empty() && lacks_speedup) {
    options.values.emplace_back("speedup");
  }
  for (const std::string& condition : flags.where) {
    options.where.push_back(parse_condition(condition, "--where"));
  }
  options.best_layout = !flags.best.empty();
  if (options.best_layout) check_best(flags.best, options);
  return options;
}

// Refuses flags that choose columns for a table that has columns of its own.
void check_own_columns(const TableFlags& flags) {
  if (flags.evidence && flags.progress) {
    throw UsageError("--progress: --evidence is another table: leave one of them out");
  }
  const bool chooses =
      !(flags.rows + flags.cols + flags.values + flags.speedup_over + flags.best).empty();
  if (!chooses || (!flags.evidence && !flags.progress)) return;
  throw UsageError(
      fmt::format("{}: has columns of its own: leave --rows, --cols, --value, --speedup-over and "
                  "--best out",
                  flags.evidence ? "--evidence" : "--progress"));
}

std::string render(const std::vector<nlohmann::ordered_json>& records, const TableFlags& flags,
                   const TableOptions& options) {
  if (flags.evidence) return render_evidence(records, options);
  if (!flags.progress) return render_table(records, options);
  return render_progress(shard_states(choose(records, options.where)), options.format);
}

int run(const TableFlags& flags) {
  const TableOptions options = make_options(flags);
  check_own_columns(flags);
  std::vector<nlohmann::ordered_json> records;
  std::vector<std::string> warnings;
  for (const std::string& file : flags.files) {
    for (auto& record : read_records(file, warnings)) records.push_back(std::move(record));
  }
  for (const std::string& warning : warnings) print_to(stderr, "attnlab table: {}\n", warning);
  if (records.empty()) throw UsageError("the files hold no records");
  try {
    print_to(stdout, "{}", render(records, flags, options));
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(
        fmt::format("a record lacks a field or has it in another form: {}", error.what()));
  }
  return kExitGood;
}

}  // namespace

Verb add_table_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("table", "Rebuild any table from record files");
  command->footer(footer());
  const auto flags = std::make_shared<TableFlags>();
  command->add_option("files", flags->files, "Record files, as attnlab run writes them")
      ->required()
      ->type_name("FILE");
  const auto add = [&](const char* flag, std::string& target, const char* type,
                       const char* summary) {
    add_list(*command, flag, target, summary)->type_name(type)->group("Layout");
  };
  add("--rows", flags->rows, "FIELD,...", "What tells rows apart (default: axes that vary)");
  add("--cols", flags->cols, "FIELD,...", "What tells columns apart (default: kernel and tile)");
  add("--value", flags->values, "FIELD,...", "What stands in cells (default: time, rate, speedup)");
  command
      ->add_option("--speedup-over", flags->speedup_over,
                   "The kernel or peer that speedup compares with (naive)")
      ->type_name("NAME")
      ->group("Layout");
  command
      ->add_option("--best", flags->best,
                   "layout: each competitor only in its faster layout, which is named")
      ->type_name("FIELD")
      ->group("Layout");
  command->add_option("--where", flags->where, "Only points whose field has one of the values")
      ->type_name("FIELD=VALUE,...")
      ->take_all()
      ->expected(1)
      ->group("Layout");
  command->add_flag("--evidence", flags->evidence, "Which kernels really ran, in which shape")
      ->group("Layout");
  command->add_flag("--progress", flags->progress, "How far the shards of a sweep are")
      ->group("Layout");
  command->add_option("--format", flags->format, "table, markdown, csv or json")
      ->type_name("NAME")
      ->group("Layout");
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
