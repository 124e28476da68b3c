// Chooses which rows and columns the oracle looks at when it cannot look at all of them.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "reference/mask.h"
#include "reference/oracle.h"

namespace attnlab::reference {
namespace {

// Neighbours of tile borders at this distance are looked at: block sizes are multiples of it.
constexpr std::int64_t kBorder = 64;

// The oracle works on at least this many rows of a slice at a time.
constexpr std::int64_t kFewestRows = 4;

// One pair of a row and a key takes this many multiply-adds, in units of head_dim.
constexpr std::int64_t kForward = 2;      // Q K^T, P V
constexpr std::int64_t kRowBackward = 2;  // dO V^T, dS K
constexpr std::int64_t kColumns = 3;      // dO V^T, dS^T Q, P^T dO
constexpr std::int64_t kAll = 6;          // rows and columns together: dO V^T is the same

// Brings `count` elements drawn at random to the front. It is written out, because the
// distributions and std::shuffle of one standard library draw differently from those of another.
// (The remainder favours small numbers by less than 2^-30 of their share.)
template <class Value>
void draw(std::mt19937_64& random, std::size_t count, std::vector<Value>& values) {
  for (std::size_t i = 0; i < count && i < values.size(); ++i) {
    std::swap(values[i], values[i + random() % (values.size() - i)]);
  }
}

bool at_border(std::int64_t row) { return row % kBorder == 0 || row % kBorder == kBorder - 1; }

std::vector<std::int64_t> all_of(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// Returns `count` rows (or keys) of one slice, or all if there are fewer, ascending. Half of them
// are drawn from all: so none is safe. The others are the first and last, then some at borders.
std::vector<std::int64_t> choose_rows(std::mt19937_64& random, std::int64_t rows,
                                      std::int64_t count) {
  if (count >= rows) return all_of(rows);
  std::vector<std::int64_t> likely, others;  // places where faults are likely
  for (std::int64_t row = 1; row + 1 < rows; ++row) {
    (at_border(row) ? likely : others).push_back(row);
  }
  draw(random, likely.size(), likely);
  likely.insert(likely.begin(), {0, rows - 1});
  const auto taken = static_cast<std::size_t>(
      std::min<std::int64_t>(count / 2, static_cast<std::int64_t>(likely.size())));
  others.insert(others.end(), likely.begin() + static_cast<std::ptrdiff_t>(taken), likely.end());
  likely.resize(taken);
  const std::size_t left = static_cast<std::size_t>(count) - taken;
  draw(random, left, others);
  likely.insert(likely.end(), others.begin(), others.begin() + static_cast<std::ptrdiff_t>(left));
  std::sort(likely.begin(), likely.end());
  return likely;
}

// Returns how many rows (or keys) of a slice are worth having before another slice is looked at:
// all borders, and as many inside.
std::int64_t borders_twice(std::int64_t rows) { return 4 * (rows / kBorder + 1); }

// Counts pairs of a row and a key in all slices, which may be above what int64 holds.
double all_pairs(const Problem& problem) {
  double pairs = 0.0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    pairs += static_cast<double>(problem.num_heads_q) *
             static_cast<double>(rows_in_memory(problem, b)) *
             static_cast<double>(keys_in_memory(problem, b));
  }
  return pairs;
}

// Budget is in units of head_dim.
using Budget = std::int64_t;

std::vector<Sample> choose_rows_of_slices(const Problem& problem, Budget budget,
                                          std::mt19937_64& random) {
  const std::int64_t per_pair = kForward + (problem.pass == Pass::fwd ? 0 : kRowBackward);
  std::vector<Sample> samples;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t head = 0; head < problem.num_heads_q; ++head) {
      if (rows_in_memory(problem, b) > 0) samples.push_back({.batch = b, .head = head, .rows = {}});
    }
  }
  // A short slice leaves what it does not need to those after it.
  draw(random, samples.size(), samples);
  auto left = static_cast<std::int64_t>(samples.size());
  for (Sample& sample : samples) {
    const std::int64_t cost =
        std::max<std::int64_t>(1, per_pair * keys_in_memory(problem, sample.batch));
    const std::int64_t wanted = std::max(kFewestRows, budget / left / cost);
    sample.rows = choose_rows(random, rows_in_memory(problem, sample.batch), wanted);
    budget -= cost * std::ssize(sample.rows);
    --left;
  }
  return samples;
}

// Returns the fewest keys of a slice: they add an eighth to its rows' softmax and delta.
std::int64_t fewest_keys(std::int64_t keys) {
  return std::max<std::int64_t>(1, keys * kForward / (8 * kColumns));
}

// Takes what the columns cost from the budget, which may end below 0.
std::vector<ColumnSample> choose_columns(const Problem& problem, Budget& budget,
                                         std::mt19937_64& random) {
  std::vector<ColumnSample> slices;  // of entries that have pairs
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    if (rows_in_memory(problem, b) * keys_in_memory(problem, b) == 0) continue;
    for (std::int64_t head = 0; head < problem.num_heads_kv; ++head) {
      slices.push_back({.batch = b, .head_kv = head, .keys = {}});
    }
  }
  draw(random, slices.size(), slices);
  std::size_t chosen = 0;
  for (ColumnSample& sample : slices) {
    const std::int64_t rows =
        problem.num_heads_q / problem.num_heads_kv * rows_in_memory(problem, sample.batch);
    const std::int64_t keys = keys_in_memory(problem, sample.batch);
    const auto affordable = [&](Budget money) {
      return (money - kForward * rows * keys) / (kColumns * rows);
    };
    const std::int64_t worthwhile = std::min(keys, borders_twice(keys));
    if (chosen > 0 && affordable(budget) < worthwhile) break;
    const std::int64_t share =
        affordable(budget / (std::ssize(slices) - static_cast<std::ptrdiff_t>(chosen)));
    const std::int64_t wanted = std::max(share, std::min(worthwhile, affordable(budget)));
    sample.keys = choose_rows(random, keys, std::max(wanted, fewest_keys(keys)));
    budget -= kForward * rows * keys + kColumns * rows * std::ssize(sample.keys);
    ++chosen;
  }
  slices.resize(chosen);
  return slices;
}

std::pair<std::int64_t, std::int64_t> slice_of(const Sample& s) { return {s.batch, s.head}; }
std::pair<std::int64_t, std::int64_t> slice_of(const ColumnSample& s) {
  return {s.batch, s.head_kv};
}

std::vector<Sample> all_rows(const Problem& problem) {
  std::vector<Sample> samples;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t head = 0; head < problem.num_heads_q; ++head) {
      if (rows_in_memory(problem, b) == 0) continue;
      samples.push_back({.batch = b, .head = head, .rows = all_of(rows_in_memory(problem, b))});
    }
  }
  return samples;
}

std::vector<ColumnSample> all_columns(const Problem& problem) {
  std::vector<ColumnSample> samples;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t head = 0; head < problem.num_heads_kv; ++head) {
      if (keys_in_memory(problem, b) == 0) continue;
      samples.push_back({.batch = b, .head_kv = head, .keys = all_of(keys_in_memory(problem, b))});
    }
  }
  return samples;
}

}  // namespace

Samples choose_samples(const Problem& problem, std::int64_t multiply_adds, std::uint64_t seed) {
  const bool backward = problem.pass != Pass::fwd;
  Budget budget = multiply_adds / problem.head_dim;
  const auto all_fit = [&](std::int64_t per_pair) {
    return static_cast<double>(per_pair) * all_pairs(problem) <= static_cast<double>(budget);
  };
  if (all_fit(backward ? kAll : kForward)) {
    Samples samples = {.rows = all_rows(problem), .columns = {}, .seed = seed};
    if (backward) samples.columns = all_columns(problem);
    return samples;
  }

  std::mt19937_64 random(seed);
  Samples samples = {.rows = {}, .columns = {}, .seed = seed};
  if (backward) {
    const Budget half = budget / 2;
    Budget left = half;
    samples.columns = choose_columns(problem, left, random);
    budget = half + std::max<Budget>(0, left);
  }
  samples.rows = choose_rows_of_slices(problem, budget, random);
  const auto by_slice = [](const auto& a, const auto& b) { return slice_of(a) < slice_of(b); };
  std::sort(samples.rows.begin(), samples.rows.end(), by_slice);
  std::sort(samples.columns.begin(), samples.columns.end(), by_slice);
  return samples;
}

}  // namespace attnlab::reference
