#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "reference/oracle.h"

namespace attnlab::reference {
namespace {

std::int64_t rows_of(const std::vector<Sample>& samples) {
  std::int64_t rows = 0;
  for (const Sample& sample : samples) rows += static_cast<std::int64_t>(sample.rows.size());
  return rows;
}

bool contains(const Sample& sample, std::int64_t row) {
  return std::binary_search(sample.rows.begin(), sample.rows.end(), row);
}

void expect_ascending_and_inside(const std::vector<Sample>& samples, const Problem& problem) {
  std::set<std::pair<std::int64_t, std::int64_t>> slices;
  for (const Sample& sample : samples) {
    EXPECT_TRUE(slices.insert({sample.batch, sample.head}).second);
    ASSERT_FALSE(sample.rows.empty());
    EXPECT_EQ(sample.rows.front(), 0);
    EXPECT_EQ(sample.rows.back(), problem.queries(sample.batch) - 1);
    for (std::size_t i = 1; i < sample.rows.size(); ++i) {
      EXPECT_LT(sample.rows[i - 1], sample.rows[i]);
    }
  }
}

TEST(Samples, EverythingIfItFitsExactly) {
  const Problem problem = {
      .batch = 2, .num_heads_q = 3, .seqlen_q = 70, .seqlen_k = 50, .head_dim = 8};
  const std::int64_t cost = 2 * 3 * 70 * 2 * 50 * 8;
  const auto all = choose_samples(problem, cost, 1);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(rows_of(all), 6 * 70);
  expect_ascending_and_inside(all, problem);
  EXPECT_LT(rows_of(choose_samples(problem, cost - 1, 1)), 6 * 70);
}

TEST(Samples, FirstLastAndBorderRowsWithinTheBudget) {
  const Problem problem = {.batch = 2, .num_heads_q = 8, .seqlen_q = 4096, .seqlen_k = 4096};
  const std::int64_t row_cost = 2 * 4096 * 64;
  const std::int64_t budget = 512 * row_cost;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto samples = choose_samples(problem, budget, seed);
    ASSERT_EQ(samples.size(), 2u);
    EXPECT_LE(rows_of(samples), 512);
    EXPECT_GE(rows_of(samples), 500);
    expect_ascending_and_inside(samples, problem);
    for (std::int64_t border = 64; border < 4096; border += 64) {
      EXPECT_TRUE(contains(samples[0], border - 1)) << border;
      EXPECT_TRUE(contains(samples[0], border)) << border;
    }
    EXPECT_TRUE(std::any_of(samples[0].rows.begin(), samples[0].rows.end(),
                            [](std::int64_t row) { return row % 64 > 0 && row % 64 < 63; }));
  }
}

TEST(Samples, RowsInsideArePickedEvenIfBordersDoNotFit) {
  const Problem problem = {.num_heads_q = 4, .seqlen_q = 16384, .seqlen_k = 16384};
  const auto samples = choose_samples(problem, 100 * 2 * 16384 * 64, 3);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(rows_of(samples), 100);
  const auto inside = std::count_if(samples[0].rows.begin(), samples[0].rows.end(),
                                    [](std::int64_t row) { return row % 64 > 0 && row % 64 < 63; });
  EXPECT_GE(inside, 20);
  EXPECT_LE(inside, 30);
}

TEST(Samples, FirstAndLastRowOfOneSliceWhateverTheBudget) {
  const Problem problem = {.num_heads_q = 4, .seqlen_q = 1000, .seqlen_k = 1000};
  const auto samples = choose_samples(problem, 1, 3);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(samples[0].rows, (std::vector<std::int64_t>{0, 999}));
}

TEST(Samples, TheSeedDecidesAndNothingElse) {
  const Problem problem = {.batch = 4, .num_heads_q = 8, .seqlen_q = 2048, .seqlen_k = 2048};
  const auto rows = [&problem](std::uint64_t seed) {
    std::vector<std::int64_t> flat;
    for (const Sample& sample : choose_samples(problem, std::int64_t{1} << 26, seed)) {
      flat.push_back(sample.batch * 8 + sample.head);
      flat.insert(flat.end(), sample.rows.begin(), sample.rows.end());
    }
    return flat;
  };
  EXPECT_EQ(rows(7), rows(7));
  EXPECT_NE(rows(7), rows(8));
}

TEST(Samples, PackedEntriesWithoutRowsAreLeftOut) {
  Problem problem = {.batch = 3, .seqlen_q = 9, .seqlen_k = 9, .layout = Layout::packed};
  problem.lengths = {.kind = LengthsKind::packed, .queries = {4, 0, 9}, .keys = {9, 3, 0}};
  const auto samples = choose_samples(problem, std::int64_t{1} << 30, 1);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].batch, 0);
  EXPECT_EQ(samples[1].batch, 2);
  EXPECT_EQ(rows_of(samples), 13);
  expect_ascending_and_inside(samples, problem);
}

}  // namespace
}  // namespace attnlab::reference
