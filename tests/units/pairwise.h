// Picks few rows of a table that show all pairs of values that the table has in any two columns.
// Most faults need no more than two certain values at once (Kuhn, Wallace and Gallo, 2004).
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

namespace attnlab {

using PairwiseTable = std::vector<std::vector<int>>;  // rows of as many values each

// Returns the rows in the order in which they were taken: the first of those that show the most
// pairs that no row before them shows.
inline std::vector<std::size_t> pairwise_rows(const PairwiseTable& table) {
  using Pair = std::tuple<std::size_t, std::size_t, int, int>;  // columns, values
  const auto for_pairs = [](const std::vector<int>& row, const auto& visit) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      for (std::size_t j = i + 1; j < row.size(); ++j) visit(Pair{i, j, row[i], row[j]});
    }
  };
  std::map<Pair, std::size_t> numbers;
  std::vector<std::vector<std::size_t>> pairs_of(table.size());  // by their numbers
  for (std::size_t row = 0; row < table.size(); ++row) {
    for_pairs(table[row], [&](const Pair& pair) {
      pairs_of[row].push_back(numbers.emplace(pair, numbers.size()).first->second);
    });
  }
  std::vector<bool> is_shown(numbers.size(), false);
  std::vector<std::size_t> taken;
  for (;;) {
    std::size_t best = 0;
    std::ptrdiff_t most = 0;
    for (std::size_t row = 0; row < table.size(); ++row) {
      const auto fresh =
          std::ranges::count_if(pairs_of[row], [&](std::size_t pair) { return !is_shown[pair]; });
      if (fresh > most) {
        best = row;
        most = fresh;
      }
    }
    if (most == 0) return taken;
    taken.push_back(best);
    for (const std::size_t pair : pairs_of[best]) is_shown[pair] = true;
  }
}

}  // namespace attnlab
