#include "harness/report/time_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/significance.h"
#include "harness/report/sampling.h"

namespace attnlab {
namespace {

constexpr double kSignificant = 0.05;
constexpr std::size_t kFewest = 5;  // samples of a side that say anything
// A median that is slower by more than this share is never the same, whatever the noise.
constexpr double kNeverSame = 0.1;

std::vector<double> samples_of(const RecordJson& record) {
  const RecordJson given = at(record, {"time", "samples_s"});
  const auto samples = given.is_array() ? given.get<std::vector<double>>() : std::vector<double>();
  if (samples.empty() || !std::ranges::all_of(samples, [](double s) { return s > 0.0; })) {
    throw UsageError(fmt::format("{}: time.samples_s holds no times above 0",
                                 record.at("id").get<std::string>()));
  }
  return samples;
}

// Says why the time of a record is none to compare, "" if it is one.
std::string doubt_of(const RecordJson& record) {
  std::string doubt;
  if (at(record, {"time", "telemetry", "settled"}) == false) doubt = "its clock did not settle";
  if (sampled_of(record)) {
    doubt += fmt::format("{}a sample of its outputs was verified", doubt.empty() ? "" : ", ");
  }
  return doubt;
}

std::optional<double> cycles_of(const RecordJson& record) {
  const RecordJson cycles = at(record, {"time", "telemetry", "cycles"});
  const bool is_known = cycles.is_number() && cycles.get<double>() > 0.0;
  return is_known ? std::optional(cycles.get<double>()) : std::nullopt;
}

// Returns the least and the largest ratio over the pairs of processes of a point that was measured
// again. A base that was not measured again (a stored one) gives its one median to all pairs. The
// result is empty if the point was measured once, or if one side broke off and has fewer processes.
std::optional<Interval> ratios_of_processes(const RecordJson& base, const RecordJson& now) {
  const RecordJson after = at(now, {"time", "medians_s"}), before = at(base, {"time", "medians_s"});
  if (!after.is_array() || (before.is_array() && before.size() != after.size())) {
    return std::nullopt;
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const RecordJson base_s =
        before.is_array() ? before.at(i) : RecordJson(median(samples_of(base)));
    if (after.at(i).is_null() || base_s.is_null()) continue;  // its clock did not settle
    ratios.push_back(after.at(i).get<double>() / base_s.get<double>());
  }
  if (ratios.empty()) return std::nullopt;
  const auto [low, high] = std::ranges::minmax(ratios);
  return Interval{.low = low, .high = high};
}

// Turns a verdict that one of several pairs of processes contradicts into an ambiguous one: samples
// of one process are not independent, since they share what slows it.
void ask_processes(TimeChange& change) {
  if (!change.of_processes) return;
  const bool agree = change.verdict == TimeVerdict::slower
                         ? change.of_processes->low > 1.0
                         : change.of_processes->high < 1.0 + change.threshold;
  if (agree || change.verdict == TimeVerdict::ambiguous) return;
  change.verdict = TimeVerdict::ambiguous;
  change.reason = fmt::format("its pairs of processes disagree: {:+.1f} to {:+.1f} %",
                              100.0 * (change.of_processes->low - 1.0),
                              100.0 * (change.of_processes->high - 1.0));
}

void judge(TimeChange& change, double family) {
  if (change.doubtful) return;
  const double threshold = change.threshold;
  const bool significant = change.p <= kSignificant;
  const double cycles = change.cycles_ratio.value_or(change.ratio);
  if (change.samples < kFewest) {
    change.reason = "too few samples";
  } else if (change.ratio > 1.0 + threshold && significant && change.ratio95.low > 1.0) {
    if (cycles > 1.0 + threshold) change.verdict = TimeVerdict::slower;
    change.reason = "slower in seconds, not in cycles: another clock";
  } else if (change.ratio < 1.0 - threshold && significant && change.ratio95.high < 1.0) {
    if (cycles < 1.0 - threshold) change.verdict = TimeVerdict::faster;
    change.reason = "faster in seconds, not in cycles: another clock";
  } else if (change.ratio95.high < 1.0 + threshold) {
    const bool may_be_noise = change.is_noise && change.ratio > 1.0 + kNeverSame;
    if (cycles < 1.0 + threshold && !may_be_noise) change.verdict = TimeVerdict::same;
    change.reason = may_be_noise
                        ? fmt::format("slower by more than {:.0f} %, which here may be noise",
                                      100.0 * kNeverSame)
                        : "more cycles, but no slower in seconds: another clock";
  } else if (change.least_p * family > kSignificant) {
    change.reason = "too few samples for so many points";
  } else {
    change.reason =
        significant ? "the interval reaches beyond the threshold" : "the samples of both overlap";
  }
  if (change.verdict != TimeVerdict::ambiguous) change.reason.clear();
  ask_processes(change);
}

}  // namespace

const char* to_string(TimeVerdict verdict) {
  switch (verdict) {
    case TimeVerdict::same: return "same";
    case TimeVerdict::faster: return "faster";
    case TimeVerdict::slower: return "slower";
    case TimeVerdict::ambiguous: return "ambiguous";
  }
  return "";
}

bool is_timed(const RecordJson& record) { return at(record, {"time"}).is_object(); }

TimeChange time_change(const RecordJson& base, const RecordJson& now) {
  const std::vector<double> before = samples_of(base), after = samples_of(now);
  const RankTest test = mann_whitney(before, after);
  TimeChange change = {.base_s = median(before),
                       .now_s = median(after),
                       .ratio95 = median_ratio_interval95(before, after),
                       .of_processes = ratios_of_processes(base, now),
                       .p = test.p,
                       .least_p = test.least_p,
                       .samples = std::min(before.size(), after.size())};
  change.ratio = change.now_s / change.base_s;
  const std::optional<double> cycles = cycles_of(now), base_cycles = cycles_of(base);
  if (cycles && base_cycles) change.cycles_ratio = *cycles / *base_cycles;
  for (const auto& [side, record] : {std::pair("base", &base), std::pair("new", &now)}) {
    const std::string doubt = doubt_of(*record);
    if (doubt.empty()) continue;
    change.doubtful = true;
    change.reason += fmt::format("{}{}: {}", change.reason.empty() ? "" : "; ", side, doubt);
  }
  return change;
}

void judge_times(const std::vector<TimeChange*>& changes) {
  std::vector<double> p;
  for (const TimeChange* change : changes) p.push_back(change->p);
  const std::vector<double> adjusted = holm_adjusted(p);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i]->p = adjusted[i];
    judge(*changes[i], static_cast<double>(changes.size()));
  }
}

}  // namespace attnlab
