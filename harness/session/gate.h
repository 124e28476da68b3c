// Measures a sweep by this program and by another one in turns, or beside stored records, and says
// what became slower, larger or wrong. docs/ci.md says what the exit codes mean.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/protocol.h"
#include "harness/report/comparison.h"

namespace attnlab {

// Names a program that measures, and what distinguishes its runs: a folder of kernels, say.
struct GateSide {
  std::string name;                    // of its files and in messages
  std::string program;                 // an attnlab
  std::vector<std::string> arguments;  // of its `run`, beside those of the sweep
};

struct GateRun {
  GateSide head;
  std::vector<GateSide> candidates;  // other heads, which take turns with it
  std::optional<GateSide> base;      // takes turns with the heads
  std::vector<RecordJson> baseline;  // where there is no base: what is stored of it
  std::vector<std::string> sweep;    // arguments of `run` that choose the points
  std::vector<Case> cases;           // that they choose
  std::vector<std::string> points;   // their record_key()s, of the head
  int rounds = 0;
  std::filesystem::path
      folder;  // gets the records of each side: NAME.jsonl, NAME-again-1.jsonl, ...
  // Why nobody looks which kernels the sides run; "": run_gate() looks, after the timing.
  std::string why_no_kernels = "nobody looked";
  bool shows_progress = true;
  std::function<bool()> interrupted = [] { return false; };
};

// Lists the points of a sweep that are to be measured, by their record_key() on each side, or by
// their asked_key() where nobody knows yet what the base will choose.
struct PointLists {
  std::vector<std::string> head, base;
  std::vector<std::string> base_also;  // by which a base that knows no asked_key() finds them
};

// Holds what was measured of one head and of the base.
struct MeasuredSides {
  std::vector<RecordJson> head, base;
  std::vector<std::string> troubles;  // of runs that did not do what they should: whole sentences
};

// Measures the points once, by runs in fresh processes whose records go to NAME + suffix + .jsonl,
// which are begun anew. Where `only` is null, these are all points. Returns the head's sides, then
// those of each candidate. A point that a side was to measure and has no record of is a trouble, as
// is a run that ended otherwise than its records say.
// Throws std::runtime_error where a side cannot be started or does not take turns, Interrupted.
std::vector<MeasuredSides> measure_sides(const GateRun& run, const std::string& suffix, int rounds,
                                         const PointLists* only);

// Says what became of one head.
struct GateResult {
  std::string head;                // its name
  MeasuredSides sides;             // the last records of each point
  Comparison comparison;           // of them
  std::size_t measured_again = 0;  // points
  int code = 0;
};

// Measures all heads together and compares each with the base; returns the head's result, then
// those of the candidates. What looks slower, cannot be told or was not measured is measured again
// by three pairs of fresh processes, the base and that head (a candidate's records go to a folder
// of its name), whose samples count together in place of the first. Which kernels a side ran is
// seen in a run of its own, so that no timed process has loaded what looks: its records go to
// NAME-kernels.jsonl, their `evidence` into the side's records, and what goes wrong in it is the
// reason why nobody saw. A code is exit_code() of the comparison, but 3 where there are troubles or
// a clock did not settle the second time, either, and 5 where it would be 0 with a point that
// !is_judged() or that the base lacks. Throws UsageError where base and heads are of other devices,
// drivers or protocols.
std::vector<GateResult> run_gate(const GateRun& run, const CompareOptions& options,
                                 const PointLists* only);

// Returns the first of the codes that applies, in the order of attnlab gate --help.
int worst_code(const std::vector<GateResult>& results);

// Estimates the seconds that a gate takes for one case that is not measured again.
double expected_seconds(const GateRun& run, const Case& work, const Device& device,
                        const Protocol& protocol);

}  // namespace attnlab
