// Whether two samples of times differ, and how sure that is where many pairs are asked at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/base/statistics.h"

namespace attnlab {

// The two-sided p-value of Mann and Whitney's test of whether values of one sample tend to be
// larger than those of the other; both have at least one. Exact where no two values are equal and
// the samples are small, else the normal approximation, corrected for ties and continuity. Source:
// Mann and Whitney (1947); Hollander, Wolfe and Chicken, Nonparametric statistical methods (2014),
// section 4.1.
double mann_whitney_p(std::span<const double> a, std::span<const double> b);

// The smallest p-value that samples of these sizes can have: all of one lie above all of the other.
double least_mann_whitney_p(std::size_t a, std::size_t b);

// Holm's adjusted p-values, in the order of `p`: rejecting those up to 0.05 rejects a true
// hypothesis in at most 5 % of such families. Source: Holm (1979).
std::vector<double> holm_adjusted(std::span<const double> p);

// Percentile bootstrap: the central 95 % of median(now) / median(base) of 1000 resamples. Where
// `paired`, sample i of both is of one round and resampled together; they are then equally many.
// Always the same for the same samples.
Interval median_ratio_interval95(std::span<const double> base, std::span<const double> now,
                                 bool paired);

}  // namespace attnlab
