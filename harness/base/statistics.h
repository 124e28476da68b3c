// Computes robust statistics of timing samples.
#pragma once

#include <span>

namespace attnlab {

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

// Returns quantile p in [0, 1] with linear interpolation between order statistics (Hyndman and
// Fan's type 7, the default of R and NumPy). `samples` may be in any order and has at least one.
double quantile(std::span<const double> samples, double p);

double median(std::span<const double> samples);

// Returns the central 95 % of the medians of 1000 resamples with replacement (percentile
// bootstrap). It is always the same for the same samples. Source: Efron and Tibshirani, An
// introduction to the bootstrap (1993), chapter 13.
Interval median_interval95(std::span<const double> samples);

}  // namespace attnlab
