#include "harness/session/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/progress.h"
#include "harness/base/text_table.h"
#include "harness/plan/cost.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/run/case_steps.h"
#include "harness/session/pooled_record.h"
#include "harness/session/runs_in_turns.h"

namespace attnlab {
namespace {

constexpr int kJobsAgain = 3;  // of what is measured again

void write_lines(const std::filesystem::path& file, const std::vector<std::string>& lines) {
  std::ofstream stream(file);
  for (const std::string& line : lines) stream << line << "\n";
  stream.close();
  if (!stream) {
    throw UsageError(
        fmt::format("{}: cannot be written: make room, or name another folder with "
                    "--out",
                    file.string()));
  }
}

// Holds one side's run: its command, and where its records go.
struct SideRun {
  std::filesystem::path records;
  std::vector<std::string> points;  // that it must have a record of
  TurnRun turns;
};

// Says how a side is run.
struct RunKind {
  std::string suffix;  // of its files
  int rounds = 0;
  const char* counters = "off";
};

// Returns the run of a side. It measures the points of a list, all of them where that is null.
SideRun side_run(const GateRun& run, const GateSide& side, const RunKind& kind,
                 const std::vector<std::string>* only) {
  const std::filesystem::path stem = run.folder / (side.name + kind.suffix);
  const std::filesystem::path records = stem.string() + ".jsonl";
  std::error_code error;
  std::filesystem::remove(records, error);
  std::vector<std::string> command = {side.program, "run"};
  for (const auto* words : {&run.sweep, &side.arguments}) {
    command.insert(command.end(), words->begin(), words->end());
  }
  for (const std::string& word :
       {std::string("--turns"), std::string("--no-progress"),
        fmt::format("--counters={}", kind.counters), fmt::format("--rounds={}", kind.rounds),
        "--out=" + records.string()}) {
    command.push_back(word);
  }
  if (only != nullptr) {
    const std::filesystem::path list = stem.string() + ".txt";
    write_lines(list, *only);
    command.push_back("--only=" + list.string());
  }
  return {.records = records,
          .points = {},
          .turns = {.name = side.name, .command = std::move(command)}};
}

// Shows how far the runs are.
class GateProgress {
 public:
  explicit GateProgress(const GateRun& run) : run_(run) {
    const Protocol protocol = {.min_rounds = run.rounds};
    for (const CaseGroup& group : group_layouts(run.cases)) {
      weights_[group_id(group)] += case_weight(group, protocol);
    }
    if (!run.shows_progress) return;
    double total = 0.0;
    for (const auto& [id, weight] : weights_) total += weight;
    progress_.emplace(stderr, total);
  }
  void before(const TurnRun& side, const TurnRequest& request) {
    if (!progress_) return;
    if (request.case_id != case_id_) {
      case_id_ = request.case_id;
      progress_->begin(case_id_);
    }
    if (request.step == TurnStep::leave && side.name == run_.head.name) {
      progress_->advance(std::exchange(weights_[case_id_], 0.0));
    } else {
      progress_->phase(side.name);
    }
  }
  void finish() {
    if (progress_) progress_->finish();
  }

 private:
  const GateRun& run_;
  std::map<std::string, double> weights_;
  std::optional<Progress> progress_;
  std::string case_id_;
};

// Keeps what can stand in any report: printable ASCII.
std::string printable(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

std::vector<RecordJson> records_of(const std::filesystem::path& file,
                                   std::vector<std::string>& troubles) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  return read_records(file, troubles);
}

// Returns what is wrong with a run, "" if nothing is. Its exit code must be what its records say:
// one that broke off ends with 3, too.
std::string trouble_of(const TurnRun& run, const RunEnding& ending,
                       const std::vector<RecordJson>& records) {
  const auto any = [&](const char* status) {
    return std::ranges::any_of(
        records, [&](const RecordJson& record) { return record.at("status") == status; });
  };
  const bool is_good =
      ending.how == "exit status 0" || (ending.how == "exit status 1" && any("failed")) ||
      (ending.how == "exit status 3" && !records.empty() && (any("invalid") || !any("ok")));
  if (is_good) return "";
  return fmt::format("The run of the {} ended with {}.{}{}", run.name, ending.how,
                     ending.errors.empty() ? "" : " Its last words: ", printable(ending.errors));
}

// Adds which of the points a side has no record of.
void check_complete(const std::string& side, const std::vector<RecordJson>& records,
                    const std::vector<std::string>& points, std::vector<std::string>& troubles) {
  std::set<std::string> there;
  for (const RecordJson& record : records) {
    there.insert(record_key(record));
    there.insert(asked_key(record));
  }
  for (const std::string& point : points) {
    if (there.contains(point)) continue;
    troubles.push_back(fmt::format("The {} has no record of {}.", side, point));
  }
}

bool needs_another_try(const PointChange& point) {
  const bool could_be = point.status != "unsupported" && point.status != "failed";
  return (could_be && !is_judged(point)) ||
         (point.time && (point.time->verdict == TimeVerdict::slower ||
                         point.time->verdict == TimeVerdict::ambiguous));
}

PointLists to_measure_again(const Comparison& comparison) {
  std::set<std::string> keys;
  for (const PointChange& point : comparison.points) {
    if (needs_another_try(point)) keys.insert(point.key);
  }
  PointLists lists;
  for (const Pair& pair : comparison.pairing.pairs) {
    if (!keys.contains(pair.key)) continue;
    lists.base.push_back(record_key(*pair.base));
    lists.head.push_back(record_key(*pair.now));
  }
  return lists;
}

// Puts what several jobs measured of the points in the place of what was measured before.
void replace(std::vector<RecordJson>& records, const std::vector<std::string>& points,
             const std::vector<std::vector<RecordJson>>& jobs) {
  std::map<std::string, std::vector<RecordJson>> again;
  for (const auto& job : jobs) {
    for (const RecordJson& record : job) again[record_key(record)].push_back(record);
  }
  const std::set<std::string> wanted(points.begin(), points.end());
  for (RecordJson& record : records) {
    const std::string key = record_key(record);
    if (wanted.contains(key) && again.contains(key)) record = pooled(record, again.at(key));
  }
}

Comparison compare_sides(const MeasuredSides& sides, CompareOptions options) {
  if (sides.base.empty()) {
    throw std::runtime_error(fmt::format("nothing was measured by the base. {}",
                                         sides.troubles.empty() ? "" : sides.troubles.front()));
  }
  options.across = true;
  Comparison comparison = compare(sides.base, sides.head, options);
  if (comparison.differences.empty()) return comparison;
  throw UsageError(
      fmt::format("base and head cannot be compared: {}", comparison.differences.front()));
}

// Measures the points again, in several pairs of processes.
void measure_again(const GateRun& pair, const PointLists& again, MeasuredSides& sides) {
  std::vector<std::vector<RecordJson>> heads, bases;
  for (int job = 1; job <= kJobsAgain; ++job) {
    MeasuredSides own =
        measure_sides(pair, fmt::format("-again-{}", job), pair.rounds, &again).front();
    std::ranges::move(own.troubles, std::back_inserter(sides.troubles));
    heads.push_back(std::move(own.head));
    bases.push_back(std::move(own.base));
  }
  replace(sides.head, again.head, heads);
  if (pair.base) replace(sides.base, again.base, bases);
}

// Returns the run of one head and the base alone. A candidate's has a folder of its own.
GateRun pair_of(const GateRun& run, const GateSide& head) {
  GateRun pair = run;
  pair.candidates.clear();
  if (head.name == run.head.name) return pair;
  pair.head = head;
  pair.folder = run.folder / head.name;
  std::filesystem::create_directories(pair.folder);
  return pair;
}

// Gives the sides turns, until all have ended.
std::vector<RunEnding> run_together(const GateRun& run, const std::vector<SideRun>& sides) {
  std::vector<TurnRun> runs;
  for (const SideRun& side : sides) runs.push_back(side.turns);
  GateProgress progress(run);
  TurnOptions options = {.seed = std::random_device()(), .interrupted = run.interrupted};
  for (const CaseGroup& group : group_layouts(run.cases)) {
    options.case_ids.push_back(group_id(group));
  }
  options.before = [&](const TurnRun& side, const TurnRequest& request) {
    progress.before(side, request);
  };
  std::vector<RunEnding> endings = take_turns(runs, options);
  progress.finish();
  return endings;
}

// Reads what a side measured, as if it were a head.
MeasuredSides measured_by(const SideRun& side, const RunEnding& ending) {
  const TurnRun& turns = side.turns;
  if (!ending.began) {
    throw std::runtime_error(fmt::format(
        "{}: the run of {} did not begin ({}). An attnlab that is older than the gate takes no "
        "turns: name its source folder, and this program compares its kernels on a GPU. It said: "
        "{}",
        turns.name, turns.command[0], ending.how, printable(ending.errors)));
  }
  MeasuredSides measured;
  measured.head = records_of(side.records, measured.troubles);
  const std::string trouble = trouble_of(turns, ending, measured.head);
  if (!trouble.empty()) measured.troubles.push_back(trouble);
  check_complete(turns.name, measured.head, side.points, measured.troubles);
  if (measured.head.empty() && measured.troubles.empty()) {
    measured.troubles.push_back(fmt::format("The {} has no records.", turns.name));
  }
  return measured;
}

// Holds what a run of a side saw of its kernels.
struct SeenKernels {
  std::vector<RecordJson> records;
  std::string why_not;  // of points that the records say nothing of
};

bool says_what_ran(const RecordJson& record) {
  return at(record, {"evidence", "executed"}).is_array();
}

// Runs a side alone, on what it measured, for what its records say of kernels. Any attnlab that
// takes turns sees them by --counters auto: there is no smaller look that older ones know.
SeenKernels look_at_kernels(const GateRun& run, const GateSide& side,
                            const std::vector<RecordJson>& measured) {
  SeenKernels seen = {.records = {}, .why_not = run.why_no_kernels};
  if (!seen.why_not.empty()) return seen;
  std::vector<std::string> points;
  for (const RecordJson& record : measured) {
    const bool ran = record.at("status") == "ok";
    if (ran && !says_what_ran(record)) points.push_back(record_key(record));
  }
  if (points.empty()) return seen;
  const SideRun look =
      side_run(run, side, {.suffix = "-kernels", .rounds = 1, .counters = "auto"}, &points);
  try {
    const RunEnding ending = run_together(run, {look}).front();
    std::vector<std::string> warnings;
    seen.records = records_of(look.records, warnings);
    seen.why_not = fmt::format("the run that was to see it ended with {}", ending.how);
  } catch (const std::runtime_error& error) {  // took turns while it was timed, and does not now
    seen.why_not = printable(error.what());
  }
  return seen;
}

// Puts what was seen into records that do not say which kernels ran. A record of a peer does, for
// its own process looks.
void add_evidence(const SeenKernels& seen, std::vector<RecordJson>& records) {
  std::map<std::string, RecordJson> evidence;
  for (const RecordJson& record : seen.records) {
    const RecordJson own = at(record, {"evidence"});
    if (own.is_object()) evidence[record_key(record)] = own;
  }
  for (RecordJson& record : records) {
    if (says_what_ran(record)) continue;
    const auto found = evidence.find(record_key(record));
    record["evidence"] = found != evidence.end()
                             ? found->second
                             : RecordJson({{"executed", nullptr}, {"reason", seen.why_not}});
  }
}

int code_of(const GateResult& result, const CompareOptions& options) {
  const Comparison& comparison = result.comparison;
  const auto any = [&](const auto& holds) { return std::ranges::any_of(comparison.points, holds); };
  const int code = exit_code(comparison, options);
  if (code == kExitVerificationFailed) return code;
  const bool doubtful =
      any([](const PointChange& point) { return point.time && point.time->doubtful; });
  if (!result.sides.troubles.empty() || doubtful) return kExitEnvironment;
  const bool unjudged = any([](const PointChange& point) { return !is_judged(point); }) ||
                        !comparison.pairing.extra.empty();
  return code == kExitGood && unjudged ? kExitAmbiguous : code;
}

}  // namespace

std::vector<MeasuredSides> measure_sides(const GateRun& run, const std::string& suffix, int rounds,
                                         const PointLists* only) {
  PointLists lists;
  if (only != nullptr) {
    lists = *only;
    lists.base_also.insert(lists.base_also.begin(), only->base.begin(), only->base.end());
  }
  std::vector<SideRun> sides;
  const auto add = [&](const GateSide& side, const std::vector<std::string>& chosen,
                       const std::vector<std::string>& expected) {
    sides.push_back(side_run(run, side, {.suffix = suffix, .rounds = rounds},
                             only == nullptr ? nullptr : &chosen));
    sides.back().points = expected;
  };
  add(run.head, lists.head, only == nullptr ? run.points : lists.head);
  for (const GateSide& candidate : run.candidates) add(candidate, lists.base_also, lists.base);
  if (run.base) add(*run.base, lists.base_also, lists.base);
  const std::vector<RunEnding> endings = run_together(run, sides);

  std::vector<MeasuredSides> measured;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    measured.push_back(measured_by(sides[i], endings[i]));
  }
  MeasuredSides base = {.head = run.baseline};
  if (run.base) {
    base = std::move(measured.back());
    measured.pop_back();
  }
  for (MeasuredSides& own : measured) {
    own.base = base.head;
    own.troubles.insert(own.troubles.end(), base.troubles.begin(), base.troubles.end());
  }
  return measured;
}

std::vector<GateResult> run_gate(const GateRun& run, const CompareOptions& options,
                                 const PointLists* only) {
  std::vector<MeasuredSides> measured = measure_sides(run, "", run.rounds, only);
  std::vector<GateSide> heads = run.candidates;
  heads.insert(heads.begin(), run.head);
  SeenKernels of_base = {.records = {}, .why_not = "the stored record does not say"};
  if (run.base) of_base = look_at_kernels(run, *run.base, measured.front().base);
  std::vector<GateResult> results;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    GateResult result = {.head = heads[i].name, .sides = std::move(measured[i])};
    const SeenKernels of_head = look_at_kernels(run, heads[i], result.sides.head);
    const auto compare_with_kernels = [&] {
      add_evidence(of_base, result.sides.base);
      add_evidence(of_head, result.sides.head);
      result.comparison = compare_sides(result.sides, options);
    };
    compare_with_kernels();
    const PointLists again = to_measure_again(result.comparison);
    result.measured_again = again.head.size();
    if (!again.head.empty()) {
      measure_again(pair_of(run, heads[i]), again, result.sides);
      compare_with_kernels();
    }
    result.code = code_of(result, options);
    results.push_back(std::move(result));
  }
  return results;
}

int worst_code(const std::vector<GateResult>& results) {
  for (const int code : {kExitVerificationFailed, kExitEnvironment, kExitSlower, kExitAmbiguous}) {
    if (std::ranges::find(results, code, &GateResult::code) != results.end()) return code;
  }
  return kExitGood;
}

double expected_seconds(const GateRun& run, const Case& work, const Device& device,
                        const Protocol& protocol) {
  const bool is_gpu = device.backend == Backend::cuda;
  const Pace pace = {.flops_per_s = is_gpu ? 1e14 : 2e10 * device.threads,
                     .point_s = is_gpu ? 1.0 : 0.1,
                     .untimed_launches = 4.0};  // these verify
  Protocol rounds = protocol;
  rounds.min_rounds = run.rounds;
  rounds.max_seconds = std::numeric_limits<double>::infinity();
  const auto sides = static_cast<double>(1 + run.candidates.size() + (run.base ? 1 : 0));
  double seconds = case_seconds(work, rounds, pace);
  if (run.why_no_kernels.empty()) {
    rounds.min_rounds = 1;
    seconds += case_seconds(work, rounds, pace);
  }
  return sides * seconds;
}

}  // namespace attnlab
