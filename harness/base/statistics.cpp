#include "harness/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace attnlab {

namespace {

constexpr int kResamples = 1000;

std::vector<double> sorted(std::span<const double> samples) {
  std::vector<double> values(samples.begin(), samples.end());
  std::sort(values.begin(), values.end());
  return values;
}

double quantile_of_sorted(const std::vector<double>& values, double p) {
  const double position = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - std::floor(position));
}

// Returns the median of a resample from how often it drew each sorted value: nothing is sorted.
double median_of_counts(const std::vector<double>& values, const std::vector<int>& counts) {
  const std::size_t n = values.size();
  std::size_t seen = 0, i = 0;
  const auto order_statistic = [&](std::size_t rank) {
    while (seen + static_cast<std::size_t>(counts[i]) <= rank) {
      seen += static_cast<std::size_t>(counts[i++]);
    }
    return values[i];
  };
  const double lower = order_statistic((n - 1) / 2);
  return std::midpoint(lower, order_statistic(n / 2));
}

}  // namespace

double quantile(std::span<const double> samples, double p) {
  return quantile_of_sorted(sorted(samples), p);
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

Interval median_interval95(std::span<const double> samples) {
  const std::vector<double> values = sorted(samples);
  const std::size_t n = values.size();
  std::mt19937_64 generator(20240711);
  std::vector<int> counts(n);
  std::vector<double> medians;
  medians.reserve(kResamples);
  for (int resample = 0; resample < kResamples; ++resample) {
    std::fill(counts.begin(), counts.end(), 0);
    for (std::size_t draw = 0; draw < n; ++draw) ++counts[((generator() >> 32) * n) >> 32];
    medians.push_back(median_of_counts(values, counts));
  }
  std::sort(medians.begin(), medians.end());
  return {quantile_of_sorted(medians, 0.025), quantile_of_sorted(medians, 0.975)};
}

}  // namespace attnlab
