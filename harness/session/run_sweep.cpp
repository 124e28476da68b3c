#include "harness/session/run_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/output.h"
#include "harness/base/progress.h"
#include "harness/base/text_table.h"
#include "harness/plan/compile_jobs.h"
#include "harness/plan/cost.h"
#include "harness/plan/device_choice.h"
#include "harness/record/record.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/record/repro.h"
#include "harness/report/dry_run.h"
#include "harness/report/tuning_report.h"
#include "harness/run/context.h"
#include "harness/run/observers.h"
#include "harness/session/compile_progress.h"
#include "harness/session/restart.h"
#include "harness/session/resume.h"
#include "kernels/api/ranges.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

using Records = std::vector<nlohmann::ordered_json>;

std::size_t count_points(const std::vector<Case>& cases) {
  std::size_t count = 0;
  for (const Case& work : cases) count += work.competitors.size();
  return count;
}

std::size_t count_runnable(const std::vector<Case>& cases) {
  std::ptrdiff_t count = 0;
  for (const Case& work : cases) count += std::ranges::count_if(work.competitors, wants_to_run);
  return static_cast<std::size_t>(count);
}

void warn(const std::string& text) { print_to(stderr, "attnlab run: {}\n", text); }

// Holds what is to be run, beside the records that the file has of it.
struct Start {
  Records records;
  Remainder rest;
};

Start start(const SweepRun& run) {
  const bool is_new = !std::filesystem::exists(run.records);  // a shard's dry run may have no file
  if (run.mode == RecordsMode::append || is_new) return {.rest = {.cases = run.cases}};
  std::vector<std::string> warnings;
  Start start{.records = read_records(run.records, warnings)};
  for (const std::string& warning : warnings) warn(warning);
  start.rest =
      find_remainder(run.cases, run.context, start.records, run.records.string(), run.rest);
  return start;
}

// Returns "r.jsonl has 3 of them, 5 are left."
std::string describe_rest(const SweepRun& run, const Remainder& rest) {
  const std::size_t left = count_points(rest.cases);
  if (left == 0) {
    return fmt::format("{} has all of them: nothing is left to run.", run.records.string());
  }
  return fmt::format("{} has {} of them, {} {} left.", run.records.string(), rest.finished, left,
                     left == 1 ? "is" : "are");
}

std::string describe_records(const SweepRun& run, const Remainder& rest) {
  if (run.mode == RecordsMode::resume) return describe_rest(run, rest);
  std::error_code error;
  const bool appends = std::filesystem::file_size(run.records, error) > 0 && !error;
  return fmt::format("Records are appended to {}{}.", run.records.string(),
                     appends ? ", which has some already" : "");
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// Returns ", shard 2/8 with 12.4 % of the predicted time", "" for a whole sweep.
std::string describe_shard(const SweepRun& run) {
  return run.context.shard ? ", " + describe(*run.context.shard) : "";
}

void print_header(const SweepRun& run, const Remainder& rest, std::FILE* stream) {
  print_to(stream, "{}",
           wrap(fmt::format("Sweep {} ({}){}: {}, {}, of which {} can run. Device: {}. {}",
                            run.sweep.name, run.sweep.source, describe_shard(run),
                            count_of(run.cases.size(), "case"),
                            count_of(count_points(run.cases), "point"), count_runnable(run.cases),
                            describe(*run.context.device), describe_records(run, rest))));
  for (const std::string& note : rest.notes) print_to(stream, "{}", wrap(note));
  print_to(stream, "\n");
  if (run.sweep.input != nullptr) print_to(stream, "{}\n", describe_input(run.cases));
  std::fflush(stream);
}

// Compiles what the cases need, before anything is timed. A unit that fails is recorded with the
// points that need it.
void compile_all(const SweepRun& run, const std::vector<Case>& cases, std::FILE* notes) {
  CompileJobs needed;
  needed.add(cases, *run.context.device);
  if (needed.all().empty()) return;
  print_to(notes, "{}\n",
           describe(compile_with_progress(needed.all(), run.context.device->threads,
                                          run.shows_progress)));
  std::fflush(notes);
}

// Throws if the device measures time wrongly: then nothing that it measures counts.
void check_device(const SweepRun& run, const std::vector<Case>& cases) {
  if (count_runnable(cases) == 0) return;
  DeviceTurns* const turns = run.context.turns;
  if (turns != nullptr) turns->wait("", TurnStep::check_timer, 0);
  Runtime& runtime = runtime_of(*run.context.device);
  runtime.set_timeout(run.timeout_s);
  if (const std::string wrong = runtime.check_timer(); !wrong.empty()) {
    throw std::runtime_error("the timer's self-test failed, nothing was run: " + wrong);
  }
  if (turns != nullptr) turns->wait("", TurnStep::leave, 0);
}

// Opens a GPU's instruments and prints what there is to say of them; none where nothing runs.
std::optional<Observers> open_instruments(const SweepRun& run, const std::vector<Case>& cases,
                                          std::FILE* notes) {
  const Device& device = *run.context.device;
  if (count_runnable(cases) == 0) return std::nullopt;
  std::optional<Observers> observers = open_observers(run.counters, device);
  if (!observers) return std::nullopt;
  observers->further_counters = run.further_counters;
  print_to(notes, "{}\n", wrap(describe(*observers)));
  std::fflush(notes);
  return observers;
}

// Holds what became of the cases: their records, or those that were finished before the run was
// interrupted, lost the device, or had no room left for them.
struct Outcome {
  Records records;
  std::optional<DeviceLost> lost;
  std::optional<NotSaved> not_saved;
};

// Runs the cases; `keep` gets the records of each as soon as there are some.
Outcome run_cases(const SweepRun& run, const Observers* observers, const std::vector<Case>& cases,
                  const std::function<void(const Records&)>& keep) {
  RunContext context = run.context;
  context.observers = observers;
  Spending spending;
  context.spending = &spending;
  const std::unique_ptr<std::FILE, CloseFile> nowhere(std::fopen("/dev/null", "w"));
  Progress progress(run.shows_progress ? stderr : nowhere.get(),
                    case_weight(cases, context.protocol));
  Outcome outcome;
  Records& all = outcome.records;
  const auto finish = [&](const std::vector<Record>& records) {
    Records lines;
    for (const Record& record : records) lines.push_back(to_json(record));
    keep(lines);
    std::ranges::move(lines, std::back_inserter(all));
    for (const Record& record : records) {
      if (record.status != Status::failed && record.status != Status::invalid) continue;
      progress.line(fmt::format("{}: {}", to_string(record.status), record.reason));
    }
  };
  try {
    for (const CaseGroup& group : group_layouts(cases)) {
      run_group(group, context, progress, finish);
    }
  } catch (const Interrupted&) {  // what is finished is in the file
  } catch (const DeviceLost& lost) {
    outcome.lost = lost;
  } catch (const NotSaved& error) {
    outcome.not_saved = error;
  }
  if (const std::string spent = describe(spending); !spent.empty()) progress.line(spent);
  return outcome;
}

// Says what is recorded, and gives the command that runs the rest.
std::string describe_end(const SweepRun& run, const std::string& what, std::size_t recorded) {
  const std::size_t points = count_points(run.cases);
  const std::string text =
      fmt::format("{}: {} of {} recorded.", what, recorded, count_of(points, "point"));
  const bool can_go_on = recorded < points && std::filesystem::is_regular_file(run.records);
  if (!can_go_on || !run.shows_hints) return wrap(text);
  std::string command = run.typed;
  if (run.mode == RecordsMode::append) {
    command += " --resume " + shell_word(run.records.string());
  }
  return wrap(text + " To run the rest:") + "  " + command + "\n";
}

void print_other_views(const SweepRun& run, std::FILE* stream) {
  print_to(stream,
           "\nRecords: {0}\nOther views of them: attnlab table --help; for example\n"
           "  attnlab table {0} --value gflops\n"
           "  attnlab table {0} --value time_ms,ci,peak_mib,requested_mib\n",
           shell_word(run.records.string()));
}

}  // namespace

int run_sweep(const SweepRun& run) {
  // Data formats need standard output to themselves, so notes go to standard error.
  const bool data_only = run.format == TableFormat::csv || run.format == TableFormat::json;
  const bool speaks = run.context.turns != nullptr;  // to the process that gives turns
  std::FILE* const notes = data_only || speaks ? stderr : stdout;
  Records records, added;
  std::size_t finished = 0;
  std::optional<DeviceLost> lost;
  std::optional<NotSaved> not_saved;
  {
    const InterruptWatch watch;
    RecordFile file(run.records);
    if (const std::string repaired = file.repair(); !repaired.empty()) warn(repaired);
    Start begin = start(run);
    print_header(run, begin.rest, notes);
    compile_all(run, begin.rest.cases, notes);
    check_device(run, begin.rest.cases);
    const std::optional<Observers> observers = open_instruments(run, begin.rest.cases, notes);
    Outcome outcome = run_cases(run, observers ? &*observers : nullptr, begin.rest.cases,
                                [&](const Records& lines) { file.append(lines); });
    added = std::move(outcome.records);
    lost = outcome.lost;
    not_saved = outcome.not_saved;
    finished = begin.rest.finished + added.size();
    records = std::move(begin.records);
    records.insert(records.end(), added.begin(), added.end());
  }
  const int signal = InterruptWatch::signal();
  // A restart needs something new in the records: else the next process would end as this one did.
  const bool hangs = lost && lost->cause() == DeviceLost::Cause::hang;
  if (hangs && !added.empty() && signal == 0 && !speaks) {
    warn("a kernel hangs: its point is recorded, and a fresh process goes on with the rest");
    std::fflush(nullptr);
    restart_to_resume(run.records);
  }
  if (speaks) {
    // The process that gives turns prints the table.
  } else if (run.sweep.tune && run.format == TableFormat::table) {
    print_to(stdout, "{}", render_tuning(records));
  } else {
    TableOptions options;
    options.format = run.format;
    options.speedup_over = run.speedup_over;
    print_to(stdout, "{}", render_table(records, options));
  }
  std::fflush(stdout);
  if (run.shows_hints && !records.empty()) print_other_views(run, notes);
  if (run.saver != nullptr) print_to(notes, "\n{}", run.saver->report(added));
  if (signal != 0) {
    print_to(notes, "\n{}",
             describe_end(run, "Interrupted by " + std::string(name_of_signal(signal)), finished));
    end_by_signal(signal);
  }
  if (lost) {
    print_to(notes, "\n{}",
             describe_end(run, fmt::format("The GPU was lost ({})", lost->what()), finished));
    return kExitEnvironment;
  }
  if (not_saved) {
    print_to(stderr, "{}",
             describe_end(
                 run, fmt::format("attnlab run: {}. Make room first; so far", not_saved->what()),
                 finished));
    return kExitEnvironment;
  }
  if (run.sweep.tune) records = without_spilling(records);
  return exit_code(last_of_each_point(records));
}

int profile_sweep(const SweepRun& run) {
  const InterruptWatch watch;
  const int launches = run.context.profile_launches;
  print_to(stdout, "{}\n",
           wrap(fmt::format("For a profiler: {} launch{} of each kernel in the NVTX range "
                            "{}@profile, beside those that verify. Nothing is timed, "
                            "nothing is recorded. Device: {}.",
                            launches, launches == 1 ? "" : "es", kProfilerDomain,
                            describe(*run.context.device))));
  compile_all(run, run.cases, stdout);
  // A profiler slows launches without limit and upsets the timer's self-test: both are left out.
  runtime_of(*run.context.device).set_timeout(std::numeric_limits<double>::infinity());
  const Outcome outcome = run_cases(run, nullptr, run.cases, [](const Records& records) {
    for (const auto& record : records) {
      std::string reason = record["reason"];
      if (!reason.empty()) reason.insert(0, ": ");
      print_to(stdout, "{}",
               wrap(fmt::format("{}: {}{}", record["status"].get<std::string>(),
                                record["key"].get<std::string>(), reason)));
    }
    std::fflush(stdout);
  });
  if (const int signal = InterruptWatch::signal(); signal != 0) end_by_signal(signal);
  if (outcome.lost)
    throw std::runtime_error(fmt::format("the GPU was lost: {}", outcome.lost->what()));
  return exit_code(outcome.records);
}

int print_plan(const SweepRun& run) {
  const Start begin = start(run);
  print_to(stdout, "{}", render_plan(begin.rest.cases, *run.context.device, run.format));
  const bool data_only = run.format == TableFormat::csv || run.format == TableFormat::json;
  std::FILE* const notes = data_only ? stderr : stdout;
  if (run.context.shard) {
    print_to(notes, "{}", wrap(fmt::format("This is {}.", describe(*run.context.shard))));
  }
  if (run.mode == RecordsMode::resume) {
    print_to(notes, "{}", wrap(describe_rest(run, begin.rest)));
    for (const std::string& note : begin.rest.notes) print_to(notes, "{}", wrap(note));
  }
  return kExitGood;
}

int exit_code(const std::vector<nlohmann::ordered_json>& records) {
  const auto any = [&](Status status) {
    return std::any_of(records.begin(), records.end(),
                       [&](const auto& record) { return record["status"] == to_string(status); });
  };
  if (any(Status::failed)) return kExitVerificationFailed;
  if (any(Status::invalid) || !any(Status::ok)) return kExitEnvironment;
  return kExitGood;
}

}  // namespace attnlab
