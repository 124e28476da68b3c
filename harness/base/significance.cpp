#include "harness/base/significance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <numeric>
#include <random>
#include <utility>

namespace attnlab {
namespace {

constexpr std::size_t kMostExact = 400;  // pairs of values

// A tie holds equal values of both samples.
struct Tie {
  std::size_t size = 0;
  std::size_t doubled_rank = 0;  // twice the mean rank, which is whole
  std::size_t in_a = 0;          // of them, values of the first sample
};

std::vector<Tie> ties_of(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::ranges::sort(all);
  std::vector<Tie> ties;
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end] == all[begin]) ++end;
    const auto in_a = static_cast<std::size_t>(std::ranges::count(a, all[begin]));
    ties.push_back({.size = end - begin, .doubled_rank = begin + 1 + end, .in_a = in_a});
  }
  return ties;
}

double choose(std::size_t n, std::size_t k) {
  double ways = 1.0;
  for (std::size_t i = 0; i < k; ++i) {
    ways *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return ways;
}

// Counts, of all ways to take n of the values, those that have each doubled sum of ranks.
std::vector<double> ways_by_sum(const std::vector<Tie>& ties, std::size_t n, std::size_t values) {
  const std::size_t sums = values * (values + 1) + 1;
  std::vector<std::vector<double>> ways(n + 1, std::vector<double>(sums, 0.0));  // of i taken
  ways[0][0] = 1.0;
  for (const Tie& tie : ties) {
    for (std::size_t taken = n + 1; taken-- > 0;) {  // it counts down: rows below lack this tie yet
      for (std::size_t more = 1; more <= std::min(tie.size, taken); ++more) {
        const std::size_t rank = more * tie.doubled_rank;
        const double of_tie = choose(tie.size, more);
        for (std::size_t sum = rank; sum < sums; ++sum) {
          ways[taken][sum] += of_tie * ways[taken - more][sum - rank];
        }
      }
    }
  }
  return ways[n];
}

// Holds doubled rank sums of the first sample: its own, the expected one, the two most extreme.
struct RankSums {
  double own = 0.0, expected = 0.0, least = 0.0, most = 0.0;
};

RankSums rank_sums(const std::vector<Tie>& ties, std::size_t n, std::size_t values) {
  RankSums sums;
  std::size_t lowest = n, others = values - n;  // places that are left
  for (const Tie& tie : ties) {
    const auto rank = static_cast<double>(tie.doubled_rank);
    const std::size_t among_lowest = std::min(lowest, tie.size);
    const std::size_t among_others = std::min(others, tie.size);
    sums.own += rank * static_cast<double>(tie.in_a);
    sums.least += rank * static_cast<double>(among_lowest);
    sums.most += rank * static_cast<double>(tie.size - among_others);
    lowest -= among_lowest;
    others -= among_others;
  }
  sums.expected = static_cast<double>(n) * static_cast<double>(values + 1);
  return sums;
}

RankTest exact_test(const std::vector<Tie>& ties, const RankSums& sums, std::size_t n,
                    std::size_t values) {
  const std::vector<double> ways = ways_by_sum(ties, n, values);
  const double all = std::accumulate(ways.begin(), ways.end(), 0.0);
  const auto p_of = [&](double sum) {  // probability that a sum is this extreme
    const double distance = std::abs(sum - sums.expected);
    double extreme = 0.0;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (std::abs(static_cast<double>(i) - sums.expected) >= distance) extreme += ways[i];
    }
    return extreme / all;
  };
  return {.p = p_of(sums.own), .least_p = std::min(p_of(sums.least), p_of(sums.most))};
}

RankTest approximate_test(const std::vector<Tie>& ties, const RankSums& sums, std::size_t n,
                          std::size_t values) {
  double cubes = 0.0;
  for (const Tie& tie : ties) {
    const auto size = static_cast<double>(tie.size);
    cubes += size * size * size - size;
  }
  const auto a = static_cast<double>(n), all = static_cast<double>(values);
  const double variance = a * (all - a) / 12.0 * (all + 1.0 - cubes / (all * (all - 1.0)));
  if (!(variance > 0.0)) return {};  // all values are equal
  const auto p_of = [&](double sum) {
    const double distance = std::max(0.0, 0.5 * std::abs(sum - sums.expected) - 0.5);
    return std::erfc(distance / std::sqrt(variance) / std::numbers::sqrt2);
  };
  return {.p = p_of(sums.own), .least_p = std::min(p_of(sums.least), p_of(sums.most))};
}

std::vector<double> resample(std::span<const double> samples, std::mt19937_64& generator) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    values.push_back(samples[((generator() >> 32) * samples.size()) >> 32]);
  }
  return values;
}

}  // namespace

RankTest mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.size() > b.size()) std::swap(a, b);  // p is the same, and the table of ways is smaller
  const std::vector<Tie> ties = ties_of(a, b);
  const std::size_t values = a.size() + b.size();
  const RankSums sums = rank_sums(ties, a.size(), values);
  return a.size() * b.size() <= kMostExact ? exact_test(ties, sums, a.size(), values)
                                           : approximate_test(ties, sums, a.size(), values);
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

Interval median_ratio_interval95(std::span<const double> base, std::span<const double> now) {
  constexpr int kResamples = 1000;
  std::mt19937_64 generator(20261125);
  std::vector<double> ratios;
  ratios.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    const double before = median(resample(base, generator));
    ratios.push_back(median(resample(now, generator)) / before);
  }
  return {quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

}  // namespace attnlab
