// Turns samples into the numbers of a record.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "harness/base/statistics.h"
#include "harness/measure/bench.h"
#include "harness/record/record.h"

namespace attnlab {

// Both functions take the samples, at least one.
Timing summarize(Samples samples, const std::string& timer);

// Sums samples up without an interval or telemetry, as GraphTiming or QuantiseTiming.
template <class Plain>
Plain summarize_plain(Samples samples) {
  Plain plain{.inner_launches = samples.inner_launches,
              .median_s = median(samples.seconds),
              .q1_s = quantile(samples.seconds, 0.25),
              .q3_s = quantile(samples.seconds, 0.75),
              .min_s = *std::ranges::min_element(samples.seconds)};
  plain.samples_s = std::move(samples.seconds);
  return plain;
}

}  // namespace attnlab
