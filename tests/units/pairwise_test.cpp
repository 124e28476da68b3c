#include "tests/units/pairwise.h"

#include <gtest/gtest.h>

#include <set>

namespace attnlab {
namespace {

std::set<std::vector<int>> pairs_of(const PairwiseTable& rows) {
  std::set<std::vector<int>> pairs;
  for (const std::vector<int>& row : rows) {
    for (int i = 0; i < static_cast<int>(row.size()); ++i) {
      for (int j = 0; j < i; ++j) {
        pairs.insert({i, j, row[static_cast<std::size_t>(i)], row[static_cast<std::size_t>(j)]});
      }
    }
  }
  return pairs;
}

PairwiseTable taken_of(const PairwiseTable& table) {
  PairwiseTable taken;
  for (const std::size_t row : pairwise_rows(table)) taken.push_back(table.at(row));
  return taken;
}

// Returns all rows of five columns of 2 to 6 values but those that a rule forbids.
PairwiseTable table_of(bool has_rule) {
  PairwiseTable table;
  for (int row = 0; row < 2 * 3 * 4 * 5 * 6; ++row) {
    const std::vector<int> values = {row % 2, row / 2 % 3, row / 6 % 4, row / 24 % 5, row / 120};
    if (has_rule && values[0] == 1 && values[4] != 3) continue;
    table.push_back(values);
  }
  return table;
}

TEST(Pairwise, FewRowsShowEveryPairThatThereIs) {
  for (const bool has_rule : {false, true}) {
    const PairwiseTable table = table_of(has_rule), taken = taken_of(table);
    EXPECT_EQ(pairs_of(taken), pairs_of(table));
    EXPECT_GE(taken.size(), 5U * 6U);  // the pairs of the two longest columns
    EXPECT_LE(taken.size(), 48U);
  }
}

TEST(Pairwise, ARowThatShowsNothingNewIsNotTaken) {
  EXPECT_EQ(pairwise_rows({{0, 0, 0}, {0, 0, 0}, {0, 0, 1}}), (std::vector<std::size_t>{0, 2}));
  EXPECT_TRUE(pairwise_rows({}).empty());
}

}  // namespace
}  // namespace attnlab
