// These functions say whether two samples of times differ, and how sure that is where many pairs
// are asked at once.
#pragma once

#include <span>
#include <vector>

#include "harness/base/statistics.h"

namespace attnlab {

// Mann and Whitney's two-sided test asks whether values of one sample tend to be larger than those
// of the other. Ties have mean ranks. It is exact for small samples, over all ways in which these
// very values can fall into samples of these sizes; else it is the normal approximation, corrected
// for ties and continuity. Source: Mann and Whitney (1947); Hollander, Wolfe and Chicken,
// Nonparametric statistical methods (2014), section 4.1.
struct RankTest {
  double p = 1.0;
  double least_p = 1.0;  // that these values could give: all of one sample above all of the other
};
// Both samples have at least one value.
RankTest mann_whitney(std::span<const double> a, std::span<const double> b);

// Returns Holm's adjusted p-values, in the order of `p`: rejecting those up to 0.05 rejects a true
// hypothesis in at most 5 % of such families. Source: Holm (1979).
std::vector<double> holm_adjusted(std::span<const double> p);

// Returns the central 95 % of median(now) / median(base) of 1000 resamples of each (percentile
// bootstrap), always the same for the same samples. Both have at least one value.
Interval median_ratio_interval95(std::span<const double> base, std::span<const double> now);

}  // namespace attnlab
