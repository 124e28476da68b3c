// Which rows the oracle looks at when it cannot look at all of them.
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

// Multiply-adds of one row, Q K^T and P V.
std::int64_t cost_of_row(const Problem& problem, std::int64_t b) {
  return std::max<std::int64_t>(1, 2 * keys_in_memory(problem, b) * problem.head_dim);
}

// Brings `count` elements drawn at random to the front. Written out, because the distributions and
// std::shuffle of one standard library draw differently from those of another. (The remainder
// favours small numbers by less than 2^-30 of their share.)
void draw(std::mt19937_64& random, std::size_t count, std::span<std::int64_t> values) {
  for (std::size_t i = 0; i < count && i < values.size(); ++i) {
    std::swap(values[i], values[i + random() % (values.size() - i)]);
  }
}

bool at_border(std::int64_t row) { return row % kBorder == 0 || row % kBorder == kBorder - 1; }

// `count` of the rows of one slice, or all if there are fewer, ascending: first and last, then as
// many other rows at borders as fit, then any. If not all borders fit, a quarter is left for rows
// inside.
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

}  // namespace

std::vector<Sample> choose_samples(const Problem& problem, std::int64_t multiply_adds,
                                   std::uint64_t seed) {
  std::vector<std::int64_t> slices;  // batch * num_heads_q + head, of entries that have rows
  double cost_of_all = 0.0;          // may be above what int64 holds
  for (std::int64_t slice = 0; slice < problem.batch * problem.num_heads_q; ++slice) {
    const std::int64_t b = slice / problem.num_heads_q;
    if (rows_in_memory(problem, b) == 0) continue;
    slices.push_back(slice);
    cost_of_all += static_cast<double>(rows_in_memory(problem, b)) *
                   static_cast<double>(cost_of_row(problem, b));
  }

  std::vector<Sample> samples;
  std::mt19937_64 random(seed);
  const bool all_fit = cost_of_all <= static_cast<double>(multiply_adds);
  if (!all_fit) draw(random, slices.size(), slices);
  std::int64_t budget = multiply_adds;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    Sample sample = {.batch = slices[i] / problem.num_heads_q,
                     .head = slices[i] % problem.num_heads_q};
    const std::int64_t rows = rows_in_memory(problem, sample.batch);
    if (all_fit) {
      sample.rows.resize(static_cast<std::size_t>(rows));
      std::iota(sample.rows.begin(), sample.rows.end(), 0);
    } else {
      // Its share of the budget, but enough for all borders and as many rows inside.
      const std::int64_t affordable = budget / cost_of_row(problem, sample.batch);
      const std::int64_t share = affordable / static_cast<std::int64_t>(slices.size() - i);
      const std::int64_t borders_twice = 4 * (rows / kBorder + 1);
      const std::int64_t wanted = std::min(affordable, std::max(share, borders_twice));
      if (i > 0 && wanted < std::min<std::int64_t>(2, rows)) continue;
      sample.rows = choose_rows(random, rows, wanted);
      budget -= static_cast<std::int64_t>(sample.rows.size()) * cost_of_row(problem, sample.batch);
    }
    samples.push_back(std::move(sample));
  }
  const auto slice_of = [](const Sample& s) { return std::pair(s.batch, s.head); };
  std::sort(samples.begin(), samples.end(),
            [&](const Sample& a, const Sample& b) { return slice_of(a) < slice_of(b); });
  return samples;
}

}  // namespace attnlab::reference
