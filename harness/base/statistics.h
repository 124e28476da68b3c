// Robust statistics of timing samples.
#pragma once

#include <span>

namespace attnlab {

struct Interval {
  double low = 0.0;
  double high = 0.0;
};

// Quantile p in [0, 1] with linear interpolation between order statistics (Hyndman and Fan's type
// 7, the default of R and NumPy). `samples` in any order, at least one.
double quantile(std::span<const double> samples, double p);

double median(std::span<const double> samples);

// Percentile bootstrap: the central 95 % of the medians of 1000 resamples with replacement. Always
// the same for the same samples. Source: Efron and Tibshirani, An introduction to the bootstrap
// (1993), chapter 13.
Interval median_interval95(std::span<const double> samples);

}  // namespace attnlab
