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
  const auto all = choose_samples(problem, cost, 1).rows;
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(rows_of(all), 6 * 70);
  expect_ascending_and_inside(all, problem);
  EXPECT_LT(rows_of(choose_samples(problem, cost - 1, 1).rows), 6 * 70);
}

TEST(Samples, RowsOfEverySliceWithinTheBudget) {
  const Problem problem = {.batch = 2, .num_heads_q = 8, .seqlen_q = 4096, .seqlen_k = 4096};
  const std::int64_t row_cost = 2 * 4096 * 64;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const auto samples = choose_samples(problem, 16 * 130 * row_cost, seed).rows;
    ASSERT_EQ(samples.size(), 16u);
    expect_ascending_and_inside(samples, problem);
    for (const Sample& sample : samples) EXPECT_EQ(sample.rows.size(), 130u);
  }
}

TEST(Samples, HalfOfTheRowsAreWhereFaultsAreLikely) {
  const Problem problem = {.seqlen_q = 4096, .seqlen_k = 4096};
  const auto samples = choose_samples(problem, 1024 * 2 * 4096 * 64, 3).rows;
  ASSERT_EQ(samples.size(), 1u);
  ASSERT_EQ(samples[0].rows.size(), 1024u);
  for (std::int64_t border = 64; border < 4096; border += 64) {
    EXPECT_TRUE(contains(samples[0], border - 1)) << border;
    EXPECT_TRUE(contains(samples[0], border)) << border;
  }
  const auto few = choose_samples(problem, 64 * 2 * 4096 * 64, 3).rows.at(0).rows;
  EXPECT_EQ(few.size(), 64u);
  const auto likely =
      std::ranges::count_if(few, [](auto row) { return row % 64 == 0 || row % 64 == 63; });
  EXPECT_GE(likely, 32);
  EXPECT_LE(likely, 40) << "the others are any";
  EXPECT_EQ(few.front(), 0);
  EXPECT_EQ(few.back(), 4095);
}

// A kernel that is wrong in few rows meets a sample in one run or another.
TEST(Samples, EveryRowIsDrawnByOneSeedOrAnother) {
  const Problem problem = {.num_heads_q = 4, .seqlen_q = 512, .seqlen_k = 512};
  std::set<std::pair<std::int64_t, std::int64_t>> met;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    for (const Sample& sample : choose_samples(problem, 1, seed).rows) {
      for (const std::int64_t row : sample.rows) met.insert({sample.head, row});
    }
  }
  EXPECT_EQ(met.size(), 4u * 512u);
}

TEST(Samples, FourRowsOfEverySliceWhateverTheBudget) {
  const Problem problem = {.batch = 3, .num_heads_q = 4, .seqlen_q = 1000, .seqlen_k = 1000};
  const auto samples = choose_samples(problem, 1, 3).rows;
  ASSERT_EQ(samples.size(), 12u);
  expect_ascending_and_inside(samples, problem);
  EXPECT_EQ(rows_of(samples), 12 * 4);
}

TEST(Samples, TheSeedDecidesAndNothingElse) {
  const Problem problem = {.batch = 4, .num_heads_q = 8, .seqlen_q = 2048, .seqlen_k = 2048};
  const auto rows = [&problem](std::uint64_t seed) {
    std::vector<std::int64_t> flat;
    for (const Sample& sample : choose_samples(problem, std::int64_t{1} << 26, seed).rows) {
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
  const auto samples = choose_samples(problem, std::int64_t{1} << 30, 1).rows;
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].batch, 0);
  EXPECT_EQ(samples[1].batch, 2);
  EXPECT_EQ(rows_of(samples), 13);
  expect_ascending_and_inside(samples, problem);
}

std::int64_t keys_of(const std::vector<ColumnSample>& samples) {
  std::int64_t keys = 0;
  for (const ColumnSample& sample : samples) keys += static_cast<std::int64_t>(sample.keys.size());
  return keys;
}

TEST(Samples, ForwardHasNoColumns) {
  const Problem problem = {.seqlen_q = 70, .seqlen_k = 50};
  EXPECT_TRUE(choose_samples(problem, std::int64_t{1} << 40, 1).columns.empty());
  EXPECT_TRUE(choose_samples(problem, 1, 1).columns.empty());
}

TEST(Samples, AllRowsAndColumnsIfTheyFitExactly) {
  const Problem problem = {.pass = Pass::bwd,
                           .batch = 2,
                           .num_heads_q = 4,
                           .num_heads_kv = 2,
                           .seqlen_q = 70,
                           .seqlen_k = 50,
                           .head_dim = 8};
  const std::int64_t cost = 2 * 4 * 70 * 50 * 6 * 8;
  const Samples all = choose_samples(problem, cost, 1);
  EXPECT_EQ(rows_of(all.rows), 2 * 4 * 70);
  ASSERT_EQ(all.columns.size(), 4u);
  EXPECT_EQ(keys_of(all.columns), 2 * 2 * 50);
  EXPECT_EQ(all.columns[3].batch, 1);
  EXPECT_EQ(all.columns[3].head_kv, 1);
  const Samples fewer = choose_samples(problem, cost - 1, 1);
  EXPECT_LT(rows_of(fewer.rows) + keys_of(fewer.columns), 2 * 4 * 70 + 2 * 2 * 50);
}

// Returns what choose_samples promises to spend, in multiply-adds.
std::int64_t cost_of(const Samples& samples, const Problem& problem) {
  std::int64_t pairs = 4 * rows_of(samples.rows) * problem.seqlen_k;
  const std::int64_t rows = problem.seqlen_q * problem.num_heads_q / problem.num_heads_kv;
  for (const ColumnSample& sample : samples.columns) {
    pairs += rows * (2 * problem.seqlen_k + 3 * static_cast<std::int64_t>(sample.keys.size()));
  }
  return pairs * problem.head_dim;
}

TEST(Samples, RowsAndColumnsShareTheBudget) {
  const Problem problem = {
      .pass = Pass::fwdbwd, .num_heads_q = 8, .num_heads_kv = 4, .seqlen_q = 512, .seqlen_k = 1024};
  const std::int64_t slice = 2 * 2 * 512 * 1024 * 64;  // softmax and delta of one K/V head
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const Samples one = choose_samples(problem, 3 * slice, seed);
    ASSERT_EQ(one.columns.size(), 1u);
    EXPECT_EQ(one.rows.size(), 8u);
    EXPECT_LE(cost_of(one, problem), 3 * slice);
    EXPECT_GE(cost_of(one, problem), 3 * slice * 8 / 10);
    const Samples two = choose_samples(problem, 6 * slice, seed);
    ASSERT_EQ(two.columns.size(), 2u);
    EXPECT_LE(cost_of(two, problem), 6 * slice);
    for (const ColumnSample& sample : two.columns) {
      EXPECT_EQ(sample.keys.front(), 0);
      EXPECT_EQ(sample.keys.back(), 1023);
      EXPECT_TRUE(std::is_sorted(sample.keys.begin(), sample.keys.end()));
      for (std::int64_t border = 64; border < 1024; border += 64) {
        EXPECT_TRUE(std::binary_search(sample.keys.begin(), sample.keys.end(), border - 1));
        EXPECT_TRUE(std::binary_search(sample.keys.begin(), sample.keys.end(), border));
      }
    }
    EXPECT_TRUE(std::is_sorted(two.columns.begin(), two.columns.end(),
                               [](const auto& a, const auto& b) { return a.head_kv < b.head_kv; }));
  }
}

TEST(Samples, ATwelfthOfTheKeysOfOneHeadWhateverTheBudget) {
  const Problem problem = {.pass = Pass::bwd, .num_heads_q = 4, .seqlen_q = 1000, .seqlen_k = 1000};
  const Samples samples = choose_samples(problem, 1, 3);
  ASSERT_EQ(samples.columns.size(), 1u);
  const std::vector<std::int64_t>& keys = samples.columns[0].keys;
  EXPECT_EQ(keys.size(), 83u);
  EXPECT_EQ(keys.front(), 0);
  EXPECT_EQ(keys.back(), 999);
  const Problem tiny = {.pass = Pass::bwd, .num_heads_q = 4, .seqlen_q = 1000, .seqlen_k = 10};
  EXPECT_EQ(choose_samples(tiny, 1, 3).columns.at(0).keys.size(), 1u);
  EXPECT_EQ(samples.rows.size(), 4u);
}

TEST(Samples, PackedEntriesWithoutKeysAreLeftOutOfColumns) {
  Problem problem = {
      .pass = Pass::bwd, .batch = 3, .seqlen_q = 9, .seqlen_k = 9, .layout = Layout::packed};
  problem.lengths = {.kind = LengthsKind::packed, .queries = {4, 0, 9}, .keys = {9, 3, 0}};
  const Samples samples = choose_samples(problem, std::int64_t{1} << 30, 1);
  ASSERT_EQ(samples.columns.size(), 2u);
  EXPECT_EQ(samples.columns[0].batch, 0);
  EXPECT_EQ(samples.columns[1].batch, 1);  // nobody sees its keys: their gradients must be 0
  EXPECT_EQ(keys_of(samples.columns), 12);
}

}  // namespace
}  // namespace attnlab::reference
