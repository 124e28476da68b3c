#include "harness/measure/timing.h"

#include <algorithm>
#include <utility>

#include "harness/base/statistics.h"

namespace attnlab {

Timing summarize(Samples samples, const std::string& timer) {
  const Interval interval = median_interval95(samples.seconds);
  Timing time{.inner_launches = samples.inner_launches,
              .rounds_asked = samples.rounds_asked,
              .retries = samples.retries,
              .median_s = median(samples.seconds),
              .q1_s = quantile(samples.seconds, 0.25),
              .q3_s = quantile(samples.seconds, 0.75),
              .min_s = *std::ranges::min_element(samples.seconds),
              .ci95_low_s = interval.low,
              .ci95_high_s = interval.high,
              .timer = timer};
  if (!samples.at_work.empty()) time.at_work = median(samples.at_work);
  if (!samples.blocks.empty() || !samples.why_no_blocks.empty()) {
    time.telemetry = judge_blocks(std::move(samples.blocks), time.median_s, samples.why_no_blocks);
    if (samples.are_turns && !turns_agree(samples.seconds)) time.telemetry->settled = false;
    if (time.at_work && !(*time.at_work >= kLeastAtWork)) time.telemetry->settled = false;
  }
  time.samples_s = std::move(samples.seconds);
  return time;
}

}  // namespace attnlab
