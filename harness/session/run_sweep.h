// Runs a sweep from its record file's lock to the last table: this is what attnlab run does once it
// knows what to run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/table.h"
#include "harness/run/context.h"
#include "harness/run/observers.h"
#include "harness/run/run.h"
#include "harness/run/user_tensors.h"
#include "harness/session/resume.h"

namespace attnlab {

inline constexpr double kDefaultTimeout = 60.0;  // seconds

enum class RecordsMode : std::uint8_t { append, resume };

struct SweepRun {
  std::string typed;  // the command line as it was given; context.command_line is what is recorded
  const Sweep& sweep;
  const std::vector<Case>& cases;
  RunContext context;
  std::filesystem::path records;
  RecordsMode mode = RecordsMode::append;
  Rest rest = Rest::missing;                // what runs of it where it is resumed
  TableFormat format = TableFormat::table;  // of the last table, on standard output
  std::string speedup_over;                 // TableOptions::speedup_over
  bool shows_progress = true;
  bool shows_hints = true;       // commands for other views, and for the rest of what was cut off
  TensorSaver* saver = nullptr;  // may be null
  CounterMode counters = CounterMode::automatic;
  bool further_counters = false;       // CounterRequest::further
  double timeout_s = kDefaultTimeout;  // a launch on a GPU that takes longer hangs
};

// Returns for a finished run 1 if a point failed verification, 3 if a measurement is invalid or
// nothing came out, else 0.
int exit_code(const std::vector<nlohmann::ordered_json>& records);

// Runs the points, or those that the file lacks, and prints what came of it; where the format is
// data, all but the data go to standard error. Returns the exit code: of the points of this run,
// or, where it resumed, of all points of the file. Ends the process by the signal that interrupted
// it. Throws before anything has run: UsageError for a file that cannot be written or resumed,
// std::runtime_error for one that another process writes.
int run_sweep(const SweepRun& run);

// Runs for a profiler that watches: context.profile_launches of each kernel, verified before and
// after. Times and writes nothing, and leaves out what a profiler upsets: the timer's self-test and
// the time after which a launch hangs. Prints what came of each point; returns the exit code.
int profile_sweep(const SweepRun& run);

// Prints the points that run_sweep() would run; runs and writes nothing.
int print_plan(const SweepRun& run);

}  // namespace attnlab
