#include "harness/gate/significance.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

namespace attnlab {
namespace {

constexpr std::size_t kMostExact = 2500;  // pairs of values

// How many of the orders in which two samples of these sizes can fall have each value of U.
std::vector<double> orders_by_u(std::size_t a, std::size_t b) {
  const std::size_t values = a * b + 1;
  // orders[j] is of i values of the one sample and j of the other: the largest of all is one of the
  // first, and above j others, or one of the second.
  std::vector<std::vector<double>> orders(b + 1, std::vector<double>(values, 0.0));
  for (auto& of_none : orders) of_none[0] = 1.0;
  for (std::size_t i = 1; i <= a; ++i) {
    for (std::size_t j = 1; j <= b; ++j) {
      std::vector<double> next = orders[j - 1];
      for (std::size_t u = j; u < values; ++u) next[u] += orders[j][u - j];
      orders[j] = std::move(next);
    }
  }
  return orders[b];
}

double exact_p(std::size_t a, std::size_t b, double u) {
  const std::vector<double> orders = orders_by_u(a, b);
  const auto least = static_cast<std::ptrdiff_t>(std::min(u, static_cast<double>(a * b) - u));
  const double below = std::accumulate(orders.begin(), orders.begin() + least + 1, 0.0);
  return std::min(1.0, 2.0 * below / std::accumulate(orders.begin(), orders.end(), 0.0));
}

struct Ranked {
  double u = 0.0;     // pairs in which the value of the first sample is larger, ties half
  double ties = 0.0;  // the sum of t^3 - t over groups of t equal values
};

Ranked rank(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::ranges::sort(all);
  Ranked result;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end] == all[begin]) ++end;
    const auto equal = static_cast<double>(end - begin);
    result.ties += equal * equal * equal - equal;
    const double mean_rank = 0.5 * static_cast<double>(begin + 1 + end);
    result.u += mean_rank * static_cast<double>(std::ranges::count(a, all[begin]));
  }
  const auto n = static_cast<double>(a.size());
  result.u -= 0.5 * n * (n + 1.0);
  return result;
}

std::vector<double> resample(std::span<const double> samples, std::span<const std::size_t> drawn) {
  std::vector<double> values;
  values.reserve(drawn.size());
  for (const std::size_t i : drawn) values.push_back(samples[i]);
  return values;
}

}  // namespace

double mann_whitney_p(std::span<const double> a, std::span<const double> b) {
  const Ranked ranked = rank(a, b);
  if (ranked.ties == 0.0 && a.size() * b.size() <= kMostExact) {
    return exact_p(a.size(), b.size(), ranked.u);
  }
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  const double variance = n * m / 12.0 * (n + m + 1.0 - ranked.ties / ((n + m) * (n + m - 1.0)));
  if (!(variance > 0.0)) return 1.0;  // all values are equal
  const double distance = std::max(0.0, std::abs(ranked.u - 0.5 * n * m) - 0.5);
  return std::erfc(distance / std::sqrt(variance) / std::numbers::sqrt2);
}

double least_mann_whitney_p(std::size_t a, std::size_t b) {
  const auto n = static_cast<double>(a), m = static_cast<double>(b);
  return std::min(
      1.0, 2.0 * std::exp(std::lgamma(n + 1.0) + std::lgamma(m + 1.0) - std::lgamma(n + m + 1.0)));
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> adjusted(p.size());
  double largest = 0.0;
  for (std::size_t place = 0; place < order.size(); ++place) {
    const auto left = static_cast<double>(order.size() - place);
    largest = std::max(largest, std::min(1.0, left * p[order[place]]));
    adjusted[order[place]] = largest;
  }
  return adjusted;
}

Interval median_ratio_interval95(std::span<const double> base, std::span<const double> now,
                                 bool paired) {
  constexpr int kResamples = 1000;
  std::mt19937_64 generator(20261125);
  const auto draw = [&](std::size_t count) {
    std::vector<std::size_t> drawn(count);
    for (std::size_t& index : drawn) index = ((generator() >> 32) * count) >> 32;
    return drawn;
  };
  std::vector<double> ratios;
  ratios.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    const std::vector<std::size_t> of_base = draw(base.size());
    const std::vector<std::size_t> of_now = paired ? of_base : draw(now.size());
    ratios.push_back(median(resample(now, of_now)) / median(resample(base, of_base)));
  }
  return {quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

}  // namespace attnlab
