// Every instruction set that this processor runs is held to plain loops in double.
#include "kernels/cpu/tile_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace attnlab::cpu {
namespace {

std::vector<float> random_values(i64 count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(generator() % 2001) / 1000.0f - 1.0f;
  return values;
}

class TileOpsTest : public testing::TestWithParam<const TileOps*> {};

INSTANTIATE_TEST_SUITE_P(Isa, TileOpsTest,
                         testing::ValuesIn(supported_tile_ops().begin(),
                                           supported_tile_ops().end()),
                         [](const auto& param) { return std::string(param.param->isa); });

TEST_P(TileOpsTest, MultiplyEqualsTripleLoop) {
  for (const Accumulate accumulate : {Accumulate::no, Accumulate::add, Accumulate::rescaled}) {
    for (const bool transposed : {false, true}) {
      for (i64 rows = 1; rows <= 14; ++rows) {
        for (const i64 columns : {16L, 32L, 48L, 64L, 80L, 144L}) {
          for (const i64 inner : {1L, 3L, 64L}) {
            const i64 lda = (transposed ? rows : inner) + 2;
            const auto a = random_values(lda * (transposed ? inner : rows), 1);
            const auto b = random_values(inner * columns, 2);
            const auto scale = random_values(columns, 3);
            const auto before = random_values(rows * columns, 4);
            auto c = before;
            const Product product = {.rows = rows,
                                     .columns = columns,
                                     .inner = inner,
                                     .a = a.data(),
                                     .a_row_stride = transposed ? 1 : lda,
                                     .a_inner_stride = transposed ? lda : 1,
                                     .b = b.data(),
                                     .ldb = columns,
                                     .c = c.data(),
                                     .ldc = columns,
                                     .accumulate = accumulate,
                                     .column_scale = scale.data()};
            GetParam()->multiply(product);
            for (i64 i = 0; i < rows; ++i) {
              for (i64 j = 0; j < columns; ++j) {
                const std::size_t at = static_cast<std::size_t>(i * columns + j);
                double want = 0.0;
                if (accumulate == Accumulate::add) want = before[at];
                if (accumulate == Accumulate::rescaled) {
                  want = static_cast<double>(before[at]) * scale[static_cast<std::size_t>(j)];
                }
                for (i64 k = 0; k < inner; ++k) {
                  want += static_cast<double>(a[static_cast<std::size_t>(
                              i * product.a_row_stride + k * product.a_inner_stride)]) *
                          b[static_cast<std::size_t>(k * columns + j)];
                }
                ASSERT_NEAR(c[at], want, 2e-6 * static_cast<double>(inner + 1))
                    << "row " << i << " column " << j << " of " << rows << "x" << columns << "x"
                    << inner << " accumulate " << static_cast<int>(accumulate);
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(TileOpsTest, MultiplyLeavesEverythingElseAlone) {
  constexpr i64 kRows = 5, kColumns = 32, kLd = 48;
  const auto a = random_values(kRows * 8, 1);
  const auto b = random_values(8 * kLd, 2);
  std::vector<float> c((kRows + 1) * kLd, 42.0f);
  GetParam()->multiply({.rows = kRows,
                        .columns = kColumns,
                        .inner = 8,
                        .a = a.data(),
                        .a_row_stride = 8,
                        .b = b.data(),
                        .ldb = kLd,
                        .c = c.data(),
                        .ldc = kLd});
  for (i64 i = 0; i <= kRows; ++i) {
    for (i64 j = 0; j < kLd; ++j) {
      const bool is_outside = i == kRows || j >= kColumns;
      EXPECT_EQ(c[static_cast<std::size_t>(i * kLd + j)] == 42.0f, is_outside) << i << " " << j;
    }
  }
}

// Two steps of the online softmax over 37 and 11 keys equal the direct sums over 48.
TEST_P(TileOpsTest, SoftmaxStepsEqualDirectSoftmax) {
  constexpr i64 kColumns = 80;  // a group of four vectors and a rest, whatever the vector's length
  constexpr float kScale = 0.7f;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const i64 keys[] = {37, 11};
  std::vector<float> row_max(kColumns, kHidden), row_sum(kColumns, 0.0f), rescale(kColumns);
  std::vector<double> sum(kColumns, 0.0), largest(kColumns, kHidden);
  std::vector<std::vector<float>> scores, probabilities;
  for (int step = 0; step < 2; ++step) {
    scores.push_back(random_values(keys[step] * kColumns, static_cast<std::uint32_t>(step)));
    for (std::size_t i = 0; i < scores.back().size(); ++i) {
      const std::size_t column = i % kColumns;
      scores.back()[i] *= 40.0f;
      const bool hidden_row = column == 3;                // sees nothing at all
      const bool hidden_tile = column == 5 && step == 0;  // sees nothing in the first tile
      if (hidden_row || hidden_tile || i % 7 == 0) scores.back()[i] = kHidden;
      largest[column] = std::max(largest[column], static_cast<double>(scores.back()[i]));
    }
    probabilities.push_back(scores.back());
    GetParam()->softmax_step({.keys = keys[step],
                              .columns = kColumns,
                              .scale_log2 = kScale,
                              .scores = probabilities.back().data(),
                              .ld = kColumns,
                              .row_max = row_max.data(),
                              .row_sum = row_sum.data(),
                              .rescale = rescale.data()});
  }
  for (std::size_t column = 0; column < kColumns; ++column) {
    double want_sum = 0.0;
    for (int step = 0; step < 2; ++step) {
      // The first tile's probabilities are relative to an older maximum: rescale brings them over.
      const double factor = step == 0 ? rescale[column] : 1.0;
      for (i64 key = 0; key < keys[step]; ++key) {
        const std::size_t at = static_cast<std::size_t>(key) * kColumns + column;
        const double score = scores[static_cast<std::size_t>(step)][at];
        const double got = factor * probabilities[static_cast<std::size_t>(step)][at];
        if (score == kHidden) {
          ASSERT_EQ(got, 0.0) << "a hidden key must leave a true zero";
          continue;
        }
        const double want = std::exp2(kScale * (score - largest[column]));
        want_sum += want;
        ASSERT_NEAR(got, want, 1e-5 * want + 1e-37) << "column " << column << " key " << key;
      }
    }
    if (column == 3) {
      EXPECT_EQ(row_sum[column], 0.0f);
      EXPECT_EQ(row_max[column], kHidden);
    } else {
      EXPECT_NEAR(row_sum[column], want_sum, 1e-5 * want_sum);
      EXPECT_NEAR(row_max[column], kScale * largest[column], 1e-4);
    }
  }
}

// Powers below 2^-126 would be denormal, which is slow: they become 0, those above stay.
TEST_P(TileOpsTest, ProbabilitiesAreNeverDenormal) {
  std::vector<float> scores(160 * 16);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::size_t key = i / 16;
    scores[i] = -static_cast<float>(key);
  }
  std::vector<float> row_max(16, -std::numeric_limits<float>::infinity()), row_sum(16), rescale(16);
  GetParam()->softmax_step({.keys = 160,
                            .columns = 16,
                            .scale_log2 = 1.0f,
                            .scores = scores.data(),
                            .ld = 16,
                            .row_max = row_max.data(),
                            .row_sum = row_sum.data(),
                            .rescale = rescale.data()});
  for (int power = 0; power < 160; ++power) {
    const float want = power <= 126 ? std::exp2(-static_cast<float>(power)) : 0.0f;
    EXPECT_FLOAT_EQ(scores[static_cast<std::size_t>(power) * 16], want) << "2^-" << power;
  }
}

TEST_P(TileOpsTest, NanScoresStayVisible) {
  std::vector<float> scores(16 * 2, 1.0f);
  scores[5] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> row_max(16, -std::numeric_limits<float>::infinity()), row_sum(16), rescale(16);
  GetParam()->softmax_step({.keys = 2,
                            .columns = 16,
                            .scale_log2 = 1.0f,
                            .scores = scores.data(),
                            .ld = 16,
                            .row_max = row_max.data(),
                            .row_sum = row_sum.data(),
                            .rescale = rescale.data()});
  EXPECT_TRUE(std::isnan(row_sum[5]));
  EXPECT_FALSE(std::isnan(row_sum[4]));
}

TEST_P(TileOpsTest, TransposeMovesEveryElement) {
  for (const i64 rows : {1L, 15L, 16L, 17L, 40L}) {
    for (const i64 columns : {1L, 7L, 64L}) {
      const i64 source_stride = columns + 3, destination_stride = rows + 1;
      const auto source = random_values(rows * source_stride, 5);
      std::vector<float> destination(static_cast<std::size_t>(columns * destination_stride), 9.0f);
      GetParam()->transpose({.rows = rows,
                             .columns = columns,
                             .source = source.data(),
                             .source_stride = source_stride,
                             .destination = destination.data(),
                             .destination_stride = destination_stride});
      for (i64 i = 0; i < rows; ++i) {
        for (i64 j = 0; j < columns; ++j) {
          ASSERT_EQ(destination[static_cast<std::size_t>(j * destination_stride + i)],
                    source[static_cast<std::size_t>(i * source_stride + j)]);
        }
      }
      EXPECT_EQ(destination[static_cast<std::size_t>(rows)], 9.0f) << "padding was written";
    }
  }
}

TEST_P(TileOpsTest, SoftmaxRowEqualsDirectSoftmax) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (i64 n = 1; n <= 70; ++n) {
    auto scores = random_values(n, static_cast<std::uint32_t>(n));
    for (std::size_t i = 0; i < scores.size(); ++i) {
      scores[i] = i % 5 == 4 ? kHidden : 30 * scores[i];
    }
    double largest = kHidden, sum = 0.0;
    for (const float score : scores) largest = std::max(largest, static_cast<double>(score));
    for (const float score : scores) sum += std::exp(score - largest);
    std::vector<float> probabilities(scores.size() + 1, 9.0f);
    const float lse = GetParam()->softmax_row(scores.data(), n, probabilities.data());
    EXPECT_NEAR(lse, largest + std::log(sum), 1e-5);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double want = std::exp(scores[i] - largest) / sum;
      if (scores[i] == kHidden) {
        ASSERT_EQ(probabilities[i], 0.0f);
      } else {
        ASSERT_NEAR(probabilities[i], want, 1e-5 * want + 1e-37) << "n " << n << " at " << i;
      }
    }
    EXPECT_EQ(probabilities[scores.size()], 9.0f) << "wrote past the row";
  }
}

TEST_P(TileOpsTest, SoftmaxRowOfNothingIsZero) {
  std::vector<float> scores(33, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(GetParam()->softmax_row(scores.data(), 33, scores.data()),
            -std::numeric_limits<float>::infinity());
  for (const float probability : scores) EXPECT_EQ(probability, 0.0f);
}

TEST_P(TileOpsTest, RecomputePEqualsExpOfScoreOverTheSum) {
  constexpr i64 kRows = 5, kColumns = 48, kLd = 64;
  constexpr float kScale = 0.4f;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const float row_max[kRows] = {3.0f, -2.0f, kHidden, 90.0f, 0.0f};
  const float row_sum[kRows] = {1.0f, 7.0f, 0.0f, 3.5f, 100.0f};
  auto scores = random_values(kRows * kLd, 5);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = i % 7 == 3 ? kHidden : 20 * scores[i];
  auto p = scores;
  GetParam()->recompute_p({.rows = kRows,
                           .columns = kColumns,
                           .scale_log2 = kScale,
                           .scores = p.data(),
                           .ld = kLd,
                           .row_max = row_max,
                           .row_sum = row_sum});
  for (i64 r = 0; r < kRows; ++r) {
    for (i64 c = 0; c < kLd; ++c) {
      const std::size_t at = static_cast<std::size_t>(r * kLd + c);
      if (c >= kColumns) {
        ASSERT_EQ(p[at], scores[at]) << "outside was written";
      } else if (scores[at] == kHidden || row_sum[r] == 0.0f) {
        ASSERT_EQ(bit_cast<u32>(p[at]), 0u) << "row " << r << " column " << c;
      } else {
        const double exponent = static_cast<double>(kScale) * scores[at] - row_max[r];
        const double want = exponent < -126 ? 0.0 : std::exp2(exponent) / row_sum[r];
        ASSERT_NEAR(p[at], want, 1e-5 * want) << "row " << r << " column " << c;
      }
    }
  }
}

TEST_P(TileOpsTest, ScoreGradientReadsTheMaskFromTheSignOfP) {
  constexpr i64 kRows = 3, kColumns = 32, kLdp = 32, kLddp = 48;
  constexpr float kKeepScale = 1.25f;
  const float delta[kRows] = {0.5f, -1.5f, 0.0f};
  auto p = random_values(kRows * kLdp, 8);
  p[4] = 0.0f;
  p[5] = -0.0f;
  const auto before = random_values(kRows * kLddp, 9);
  auto dp = before;
  GetParam()->score_gradient({.rows = kRows,
                              .columns = kColumns,
                              .p = p.data(),
                              .ldp = kLdp,
                              .dp = dp.data(),
                              .lddp = kLddp,
                              .delta = delta,
                              .keep_scale = kKeepScale});
  for (i64 r = 0; r < kRows; ++r) {
    for (i64 c = 0; c < kLddp; ++c) {
      const std::size_t at = static_cast<std::size_t>(r * kLddp + c);
      if (c >= kColumns) {
        ASSERT_EQ(dp[at], before[at]) << "outside was written";
        continue;
      }
      const double marked = p[static_cast<std::size_t>(r * kLdp + c)];
      const double z = std::signbit(marked) ? 0.0 : kKeepScale;
      const double want = std::abs(marked) * (z * before[at] - delta[r]);
      ASSERT_NEAR(dp[at], want, 1e-6) << "row " << r << " column " << c;
    }
  }
}

// A dropped element's dP never reaches dS, whatever it is, and its P of -0 is told from a 0.
TEST_P(TileOpsTest, ScoreGradientOfADroppedZeroIgnoresDp) {
  std::vector<float> p(kTileColumns, -0.0f), dp(kTileColumns, kInfinity);
  const float delta = 2.0f;
  GetParam()->score_gradient({.rows = 1,
                              .columns = kTileColumns,
                              .p = p.data(),
                              .ldp = kTileColumns,
                              .dp = dp.data(),
                              .lddp = kTileColumns,
                              .delta = &delta});
  for (const float value : dp) EXPECT_EQ(value, 0.0f);
}

TEST_P(TileOpsTest, RowDotsEqualSumsInDouble) {
  constexpr i64 kRows = 3;
  for (i64 columns = 1; columns <= 70; ++columns) {
    const i64 lda = round_up(columns, kTileColumns), ldb = lda + kTileColumns;
    auto a = random_values(kRows * lda, 1), b = random_values(kRows * ldb, 2);
    for (i64 r = 0; r < kRows; ++r) {  // padding may hold anything
      for (i64 c = columns; c < lda; ++c) a[static_cast<std::size_t>(r * lda + c)] = NAN;
    }
    std::vector<float> dots(kRows + 1, 9.0f);
    GetParam()->row_dots({.rows = kRows,
                          .columns = columns,
                          .a = a.data(),
                          .lda = lda,
                          .b = b.data(),
                          .ldb = ldb,
                          .dots = dots.data()});
    for (i64 r = 0; r < kRows; ++r) {
      double want = 0.0, size = 0.0;
      for (i64 c = 0; c < columns; ++c) {
        const double term = static_cast<double>(a[static_cast<std::size_t>(r * lda + c)]) *
                            b[static_cast<std::size_t>(r * ldb + c)];
        want += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(dots[static_cast<std::size_t>(r)], want, 1e-6 * size) << r << " of " << columns;
    }
    EXPECT_EQ(dots[kRows], 9.0f);
  }
}

TEST(TileOps, NamesAreUniqueAndFindable) {
  ASSERT_FALSE(supported_tile_ops().empty());
  for (const TileOps* ops : supported_tile_ops()) EXPECT_EQ(find_tile_ops(ops->isa), ops);
  EXPECT_EQ(find_tile_ops("mmx"), nullptr);
  // The last one is what the compiler targets by itself: it runs anywhere this binary starts.
  const std::string baseline = supported_tile_ops().back()->isa;
  EXPECT_TRUE(baseline == "portable" || baseline == "sse2" || baseline == "neon") << baseline;
}

}  // namespace
}  // namespace attnlab::cpu
