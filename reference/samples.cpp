// Which rows and columns the oracle looks at when it cannot look at all of them.
#include <algorithm>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "reference/mask.h"
#include "reference/oracle.h"

namespace attnlab::reference {
namespace {

// Distance of the tile borders whose neighbours are looked at: block sizes are multiples of it.
constexpr std::int64_t kBorder = 64;

// Multiply-adds for one pair of a row and a key, in units of head_dim.
constexpr std::int64_t kForward = 2;      // Q K^T, P V
constexpr std::int64_t kRowBackward = 2;  // dO V^T, dS K
constexpr std::int64_t kColumns = 3;      // dO V^T, dS^T Q, P^T dO
constexpr std::int64_t kAll = 6;          // rows and columns together: dO V^T is the same

// Brings `count` elements drawn at random to the front. Written out, because the distributions and
// std::shuffle of one standard library draw differently from those of another. (The remainder
// favours small numbers by less than 2^-30 of their share.)
void draw(std::mt19937_64& random, std::size_t count, std::span<std::int64_t> values) {
  for (std::size_t i = 0; i < count && i < values.size(); ++i) {
    std::swap(values[i], values[i + random() % (values.size() - i)]);
  }
}

bool at_border(std::int64_t row) { return row % kBorder == 0 || row % kBorder == kBorder - 1; }

// `count` of the rows (or keys) of one slice, or all if there are fewer, ascending: first and last,
// then as many other rows at borders as fit, then any. If not all borders fit, a quarter is left
// for rows inside.
std::vector<std::int64_t> choose_rows(std::mt19937_64& random, std::int64_t rows,
                                      std::int64_t count) {
  std::vector<std::int64_t> chosen = {0};
  if (rows > 1) chosen.push_back(rows - 1);
  std::vector<std::int64_t> borders, inside;
  for (std::int64_t row = 1; row + 1 < rows; ++row) {
    (at_border(row) ? borders : inside).push_back(row);
  }
  const auto take = [&](std::vector<std::int64_t>& from, std::int64_t wanted) {
    const std::size_t taken =
        std::min(from.size(), static_cast<std::size_t>(std::max<std::int64_t>(0, wanted)));
    draw(random, taken, from);
    chosen.insert(chosen.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(taken));
  };
  const auto left = [&] { return count - static_cast<std::int64_t>(chosen.size()); };
  const bool borders_fit = static_cast<std::int64_t>(borders.size()) <= left();
  take(borders, borders_fit ? left() : left() - left() / 4);
  take(inside, left());
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<std::int64_t> all_of(std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// How many rows (or keys) of a slice are worth having before another slice is looked at: all
// borders, and as many inside.
std::int64_t borders_twice(std::int64_t rows) { return 4 * (rows / kBorder + 1); }

// Pairs of a row and a key in all slices. May be above what int64 holds.
double all_pairs(const Problem& problem) {
  double pairs = 0.0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    pairs += static_cast<double>(problem.num_heads_q) *
             static_cast<double>(rows_in_memory(problem, b)) *
             static_cast<double>(keys_in_memory(problem, b));
  }
  return pairs;
}

// In units of head_dim.
using Budget = std::int64_t;

std::vector<Sample> choose_rows_of_slices(const Problem& problem, Budget budget,
                                          std::mt19937_64& random) {
  const std::int64_t per_pair = kForward + (problem.pass == Pass::fwd ? 0 : kRowBackward);
  const auto cost_of_row = [&](std::int64_t b) {
    return std::max<std::int64_t>(1, per_pair * keys_in_memory(problem, b));
  };
  std::vector<std::int64_t> slices;  // batch * num_heads_q + head, of entries that have rows
  for (std::int64_t slice = 0; slice < problem.batch * problem.num_heads_q; ++slice) {
    if (rows_in_memory(problem, slice / problem.num_heads_q) > 0) slices.push_back(slice);
  }
  draw(random, slices.size(), slices);

  std::vector<Sample> samples;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Sample sample = {.batch = slices[i] / problem.num_heads_q,
                     .head = slices[i] % problem.num_heads_q};
    // Its share of the budget, but enough for all borders and as many rows inside.
    const std::int64_t rows = rows_in_memory(problem, sample.batch);
    const std::int64_t affordable = budget / cost_of_row(sample.batch);
    const std::int64_t share = affordable / static_cast<std::int64_t>(slices.size() - i);
    const std::int64_t wanted = std::min(affordable, std::max(share, borders_twice(rows)));
    if (i > 0 && wanted < std::min<std::int64_t>(2, rows)) continue;
    sample.rows = choose_rows(random, rows, wanted);
    budget -= static_cast<std::int64_t>(sample.rows.size()) * cost_of_row(sample.batch);
    samples.push_back(std::move(sample));
  }
  return samples;
}

// The fewest keys of a slice: what they add to the softmax and delta of its rows is an eighth.
std::int64_t fewest_keys(std::int64_t keys) { return keys * kForward / (8 * kColumns); }

// One slice, or two if the budget has room for the borders of both. What they cost is taken from
// the budget, which may end below 0.
std::vector<ColumnSample> choose_columns(const Problem& problem, Budget& budget,
                                         std::mt19937_64& random) {
  std::vector<std::int64_t> slices;  // batch * num_heads_kv + head_kv, of entries that have pairs
  for (std::int64_t slice = 0; slice < problem.batch * problem.num_heads_kv; ++slice) {
    const std::int64_t b = slice / problem.num_heads_kv;
    if (rows_in_memory(problem, b) * keys_in_memory(problem, b) > 0) slices.push_back(slice);
  }
  draw(random, slices.size(), slices);

  std::vector<ColumnSample> samples;
  const Budget half = budget / 2;
  for (std::size_t i = 0; i < slices.size() && i < 2; ++i) {
    ColumnSample sample = {.batch = slices[i] / problem.num_heads_kv,
                           .head_kv = slices[i] % problem.num_heads_kv};
    const std::int64_t rows =
        problem.num_heads_q / problem.num_heads_kv * rows_in_memory(problem, sample.batch);
    const std::int64_t keys = keys_in_memory(problem, sample.batch);
    const auto affordable = [&](Budget money) {
      return (money - kForward * rows * keys) / (kColumns * rows);
    };
    const std::int64_t worthwhile = std::min(keys, borders_twice(keys));
    if (i > 0 && affordable(budget) < worthwhile) break;
    const bool leaves_room = i == 0 && slices.size() > 1 && affordable(half) >= worthwhile;
    const std::int64_t wanted = affordable(leaves_room ? half : budget);
    sample.keys = choose_rows(random, keys, std::max(wanted, fewest_keys(keys)));
    budget -=
        kForward * rows * keys + kColumns * rows * static_cast<std::int64_t>(sample.keys.size());
    samples.push_back(std::move(sample));
  }
  return samples;
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
    Samples samples = {.rows = all_rows(problem), .columns = {}};
    if (backward) samples.columns = all_columns(problem);
    return samples;
  }

  std::mt19937_64 random(seed);
  Samples samples;
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
