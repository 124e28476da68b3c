// Judges what became of a time between two records of a point. docs/measurement.md has the rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/report/field.h"

namespace attnlab {

enum class TimeVerdict : std::uint8_t { same, faster, slower, ambiguous };
const char* to_string(TimeVerdict verdict);

struct TimeChange {
  TimeVerdict verdict = TimeVerdict::ambiguous;
  std::string reason;                // of what is ambiguous
  bool doubtful = false;             // for what a record says of itself: its clock, its outputs
  double base_s = 0.0, now_s = 0.0;  // medians of the samples
  double ratio = 1.0;                // now_s / base_s
  double threshold = 0.0;            // share of base_s below which a change is none
  bool is_noise = false;             // the threshold: by what was measured of this machine
  Interval ratio95;
  std::optional<Interval> of_processes;  // least and largest ratio; empty: of one process each
  double p = 1.0;           // Mann and Whitney's; Holm's adjustment of it once they are judged
  double least_p = 1.0;     // that the samples could give
  std::size_t samples = 0;  // of the side with fewer
  std::optional<double> cycles_ratio;  // empty: a side has no clock
};

bool is_timed(const RecordJson& record);

// Measures the change between two timed records, without a verdict yet. Throws UsageError for
// samples that are none.
TimeChange time_change(const RecordJson& base, const RecordJson& now);

// Judges all times of a comparison together, each by its threshold.
void judge_times(const std::vector<TimeChange*>& changes);

}  // namespace attnlab
