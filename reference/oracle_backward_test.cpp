// Tests the oracle's gradients: by hand, and against differences of its own forward.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "reference/dropout.h"
#include "reference/oracle.h"
#include "reference/storage.h"
#include "reference/test_support.h"

namespace attnlab::reference {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

References run(TestProblem& test, int threads = 2) {
  const Samples samples = choose_samples(test.problem, kNoLimit, 0);
  return make_references(test.problem, test.tensors(), samples, threads);
}

TEST(OracleBackward, OneKeyGetsTheSumOfDO) {
  TestProblem test({.pass = Pass::bwd, .seqlen_q = 3, .head_dim = 5});
  test.fill_normal(1);
  const References references = run(test);
  const Expected& dk = references.columns.at(0).dk;
  const Expected& dv = references.columns.at(0).dv;
  EXPECT_LT(references.rows.at(0).dq.value.cwiseAbs().maxCoeff(), 1e-15);
  EXPECT_LT(dk.value.cwiseAbs().maxCoeff(), 1e-15);
  EXPECT_TRUE(references.rows.at(0).dq.twin.isZero(0.0f));
  EXPECT_TRUE(dk.twin.isZero(0.0f));
  for (std::int64_t d = 0; d < 5; ++d) {
    double sum = 0.0;
    for (std::int64_t r = 0; r < 3; ++r) sum += static_cast<double>(test.dout.get(0, 0, r, d));
    EXPECT_NEAR(dv.value(0, d), sum, 1e-14);
    EXPECT_NEAR(static_cast<double>(dv.twin(0, d)), sum, 1e-6);
  }
}

// One row q = (0, 2), keys (1, 1) and (3, 1), softmax_scale 1/2: both scores are 1, P = 1/2, 1/2.
// v = (1, 0), (0, 2); dO = (4, 1).
TestProblem two_keys(Dtype dtype, double dropout, std::uint64_t seed) {
  TestProblem test({.pass = Pass::fwdbwd,
                    .dtype = dtype,
                    .seqlen_k = 2,
                    .head_dim = 2,
                    .dropout = dropout,
                    .seed = seed,
                    .softmax_scale = 0.5});
  test.fill_q([](auto, auto, auto, auto d) { return d == 0 ? 0.0f : 2.0f; });
  test.fill_k([](auto, auto, auto r, auto d) { return r == 1 && d == 0 ? 3.0f : 1.0f; });
  test.fill_v([](auto, auto, auto r, auto d) {
    if (r != d) return 0.0f;
    return r == 0 ? 1.0f : 2.0f;
  });
  test.fill_dout([](auto, auto, auto, auto d) { return d == 0 ? 4.0f : 1.0f; });
  return test;
}

void expect_rows(const Matrix<double>& got, const std::vector<std::vector<double>>& want) {
  ASSERT_EQ(got.rows(), static_cast<Eigen::Index>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i) {
    for (std::size_t d = 0; d < want[i].size(); ++d) {
      const auto row = static_cast<Eigen::Index>(i), column = static_cast<Eigen::Index>(d);
      EXPECT_NEAR(got(row, column), want[i][d], 1e-6) << i << ", " << d;
    }
  }
}

// O = (1/2, 1); dP = 4, 2; delta = 4/2 + 1 = 3; dS = (4 - 3)/2, (2 - 3)/2 = 1/2, -1/2.
// dQ = 1/2 (1/2 (1, 1) - 1/2 (3, 1)) = (-1/2, 0); dK = 1/2 (+-1/2) (0, 2); dV = 1/2 (4, 1) twice.
TEST(OracleBackward, TwoKeysByHand) {
  TestProblem test = two_keys(Dtype::f16, 0.0, 0);
  const References references = run(test);
  const Expected& dq = references.rows.at(0).dq;
  const Expected& dk = references.columns.at(0).dk;
  const Expected& dv = references.columns.at(0).dv;
  expect_rows(references.rows[0].o.value, {{0.5, 1.0}});
  expect_rows(dq.value, {{-0.5, 0.0}});
  expect_rows(dk.value, {{0.0, 0.5}, {0.0, -0.5}});
  expect_rows(dv.value, {{2.0, 0.5}, {2.0, 0.5}});
  // All of these are numbers of the storage type: the twin is exact.
  expect_rows(dq.twin.cast<double>(), {{-0.5, 0.0}});
  expect_rows(dk.twin.cast<double>(), {{0.0, 0.5}, {0.0, -0.5}});
  expect_rows(dv.twin.cast<double>(), {{2.0, 0.5}, {2.0, 0.5}});

  // Sizes: |dO||V| = 4, 2, and sum |dO||O| = 3, so |dS| is 1/2 * 7 and 1/2 * 5. dQ: 1/2 (7/2 + 3 *
  // 5/2) = 11/2; dK: 1/2 * 7/2 * 2; dV: 1/2 * 4. The score bound is 1/2 * 2 * 1 = 1.
  const double factor = 33.0 / 32.0;
  EXPECT_NEAR(static_cast<double>(dq.sizes(0)), 5.5 * factor, 1e-5);
  EXPECT_NEAR(static_cast<double>(dk.sizes(0)), 3.5 * factor, 1e-5);
  EXPECT_NEAR(static_cast<double>(dv.sizes(0)), 2.0 * factor, 1e-5);
  // dO * O = (2, 1), P dP = (2, 1): delta may be off by 2^-11 sqrt(5 + 5); sum_j P_j K_j = (2, 1).
  const double delta = 0x1p-11 * std::sqrt(10.0);
  expect_rows(0x1p11 * dq.delta_error.cast<double>(), {{delta * 0x1p11, delta * 0x1p10}});
  const double of_key = 0x1p11 * 0.5 * delta * 0.5 * 2.0;
  expect_rows(0x1p11 * dk.delta_error.cast<double>(), {{0.0, of_key}, {0.0, of_key}});
  EXPECT_EQ(dv.delta_error.size(), 0);
}

// The second key is dropped, p = 1/2: Z = 2, 0. O = (1, 0); Z dP = 8, 0; delta = 4; dS = 1/2 (8 -
// 4), 1/2 (0 - 4) = 2, -2. dQ = 1/2 (2 (1, 1) - 2 (3, 1)); dK = 1/2 (+-2) (0, 2); dV = (4, 1).
TEST(OracleBackward, OneOfTwoKeysDroppedByHand) {
  std::uint64_t seed = 0;
  const auto drops_the_second = [](std::uint64_t s) {
    const Problem problem = {.dropout = 0.5, .seed = s};
    return element_is_kept(problem, 0, 0, 0, 0) && !element_is_kept(problem, 0, 0, 0, 1);
  };
  while (!drops_the_second(seed)) ++seed;
  TestProblem test = two_keys(Dtype::bf16, 0.5, seed);
  const References references = run(test);
  expect_rows(references.rows.at(0).o.value, {{1.0, 0.0}});
  expect_rows(references.rows[0].dq.value, {{-2.0, 0.0}});
  expect_rows(references.columns.at(0).dk.value, {{0.0, 2.0}, {0.0, -2.0}});
  expect_rows(references.columns[0].dv.value, {{4.0, 1.0}, {0.0, 0.0}});
  expect_rows(references.rows[0].dq.twin.cast<double>(), {{-2.0, 0.0}});
  // dO * O = (4, 0), P Z dP = 4, 0: delta may be off by 2^-8 sqrt(16 + 16); sum_j P_j K_j = (2, 1).
  const double delta = 0x1p-8 * std::sqrt(32.0);
  expect_rows(references.rows[0].dq.delta_error.cast<double>(), {{delta, 0.5 * delta}});
  expect_rows(references.columns[0].dk.twin.cast<double>(), {{0.0, 2.0}, {0.0, -2.0}});
  expect_rows(references.columns[0].dv.twin.cast<double>(), {{4.0, 1.0}, {0.0, 0.0}});
}

// Returns sum(O * dO) from the oracle's forward.
double loss(TestProblem& test) {
  Problem forward = test.problem;
  forward.pass = Pass::fwd;
  const Samples samples = choose_samples(forward, kNoLimit, 0);
  double sum = 0.0;
  for (const RowReference& reference : make_references(forward, test.tensors(), samples, 1).rows) {
    const Sample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      for (std::int64_t d = 0; d < forward.head_dim; ++d) {
        sum += reference.o.value(static_cast<Eigen::Index>(i), d) *
               static_cast<double>(test.dout.get(sample.batch, sample.head, sample.rows[i], d));
      }
    }
  }
  return sum;
}

// Returns the loss's derivative by one element, from central differences at two distances, less the
// error of the square of the distance. Inputs are multiples of 2^-8: every step is exact.
double difference(TestProblem& test, TestTensor& tensor, std::int64_t b, std::int64_t h,
                  std::int64_t r, std::int64_t d) {
  const float value = tensor.get(b, h, r, d);
  const auto slope = [&](float step) {
    tensor.set(b, h, r, d, value + step);
    const double above = loss(test);
    tensor.set(b, h, r, d, value - step);
    const double below = loss(test);
    tensor.set(b, h, r, d, value);
    return (above - below) / (2.0 * static_cast<double>(step));
  };
  return (4.0 * slope(0x1p-8f) - slope(0x1p-7f)) / 3.0;
}

void expect_differences(const Problem& problem) {
  TestProblem test(problem);
  std::mt19937 random(7);
  const TestProblem::Value draw = [&](auto...) {
    return static_cast<float>(static_cast<int>(random() % 513) - 256) * 0x1p-8f;
  };
  test.fill_q(draw);
  test.fill_k(draw);
  test.fill_v(draw);
  test.fill_dout(draw);
  const References references = run(test);
  constexpr double kNear = 1e-8;
  for (const RowReference& reference : references.rows) {
    const Sample& sample = reference.sample;
    for (const std::int64_t r : sample.rows) {
      for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        ASSERT_NEAR(reference.dq.value(r, d),
                    difference(test, test.q, sample.batch, sample.head, r, d), kNear)
            << "dq row " << r << " " << problem.id();
      }
    }
  }
  double largest = 0.0;
  for (const ColumnReference& reference : references.columns) {
    const ColumnSample& sample = reference.sample;
    for (const std::int64_t c : sample.keys) {
      for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        const double dk = difference(test, test.k, sample.batch, sample.head_kv, c, d);
        const double dv = difference(test, test.v, sample.batch, sample.head_kv, c, d);
        ASSERT_NEAR(reference.dk.value(c, d), dk, kNear) << "dk key " << c << " " << problem.id();
        ASSERT_NEAR(reference.dv.value(c, d), dv, kNear) << "dv key " << c << " " << problem.id();
        largest = std::max({largest, std::abs(dk), std::abs(dv)});
      }
    }
  }
  EXPECT_GT(largest, 0.1);
}

TEST(OracleBackward, FiniteDifferencesUnderMasksAndDropout) {
  for (const char* mask : {"none", "causal", "window:2:1", "causal+blocks:butterfly:2x1"}) {
    for (const double dropout : {0.0, 0.4}) {
      expect_differences({.pass = Pass::bwd,
                          .seqlen_q = 6,
                          .seqlen_k = 6,
                          .head_dim = 3,
                          .mask = parse_mask(mask),
                          .dropout = dropout,
                          .seed = 3});
    }
  }
}

TEST(OracleBackward, FiniteDifferencesWithSharedHeadsAndPadding) {
  Problem problem = {.pass = Pass::fwdbwd,
                     .batch = 2,
                     .num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = 4,
                     .seqlen_k = 3,
                     .head_dim = 2,
                     .mask = parse_mask("causal+padding"),
                     .dropout = 0.3,
                     .seed = 1,
                     .softmax_scale = 1.25,
                     .layout = Layout::bhsd};
  problem.lengths = {.kind = LengthsKind::padding, .keys = {2, 3}};
  expect_differences(problem);
}

TEST(OracleBackward, FiniteDifferencesOfPackedEntries) {
  Problem problem = {.pass = Pass::bwd,
                     .batch = 4,
                     .num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = 5,
                     .seqlen_k = 4,
                     .head_dim = 2,
                     .mask = parse_mask("window:2:0"),
                     .dropout = 0.2,
                     .layout = Layout::packed};
  problem.lengths = {.kind = LengthsKind::packed, .queries = {3, 0, 5, 2}, .keys = {4, 2, 1, 0}};
  expect_differences(problem);
}

TEST(OracleBackward, EmptyRowsAndUnseenKeysAreExactlyZero) {
  Problem problem = {.pass = Pass::bwd,
                     .dtype = Dtype::f16,
                     .batch = 2,
                     .seqlen_q = 4,
                     .seqlen_k = 5,
                     .mask = parse_mask("window:0:0+padding")};
  problem.lengths = {.kind = LengthsKind::padding, .keys = {3, 0}};
  TestProblem test(problem);  // row r sees key r + 1: rows 0, 1 of batch 0 see keys 1, 2
  test.fill_normal(3);
  const References references = run(test);
  for (const RowReference& reference : references.rows) {
    for (Eigen::Index r = 0; r < 4; ++r) {
      EXPECT_TRUE(reference.dq.value.row(r).isZero(1e-12));  // of one key
      const bool sees = reference.sample.batch == 0 && r < 2;
      EXPECT_TRUE(sees || reference.dq.value.row(r).isZero(0.0));
      EXPECT_TRUE(reference.dq.twin.row(r).isZero(0.0f));
    }
  }
  for (const ColumnReference& reference : references.columns) {
    for (Eigen::Index c = 0; c < 5; ++c) {
      const bool is_seen = reference.sample.batch == 0 && (c == 1 || c == 2);
      EXPECT_EQ(reference.seen.at(static_cast<std::size_t>(c)), is_seen);
      EXPECT_EQ(reference.dv.value.row(c).isZero(0.0), !is_seen);
      EXPECT_EQ(reference.dv.twin.row(c).isZero(0.0f), !is_seen);
      EXPECT_TRUE(is_seen || reference.dk.value.row(c).isZero(0.0));
    }
  }
}

TEST(OracleBackward, SharedHeadsGiveTheSumOfRepeatedHeads) {
  const Problem shared = {.pass = Pass::bwd,
                          .num_heads_q = 6,
                          .num_heads_kv = 2,
                          .seqlen_q = 9,
                          .seqlen_k = 11,
                          .head_dim = 7,
                          .mask = parse_mask("window:4:2"),
                          .dropout = 0.25};
  Problem repeated = shared;
  repeated.num_heads_kv = 6;
  TestProblem a(shared), b(repeated);
  a.fill_normal(5);
  const auto head_of = [](TestTensor& tensor, std::int64_t sharing) {
    return [&tensor, sharing](auto batch, auto h, auto r, auto d) {
      return tensor.get(batch, h / sharing, r, d);
    };
  };
  b.fill_q(head_of(a.q, 1));
  b.fill_dout(head_of(a.dout, 1));
  b.fill_k(head_of(a.k, 3));
  b.fill_v(head_of(a.v, 3));
  const References of_a = run(a), of_b = run(b);
  for (std::size_t kv = 0; kv < 2; ++kv) {
    Matrix<double> dk = Matrix<double>::Zero(11, 7), dv = dk;
    for (std::size_t i = 0; i < 3; ++i) {
      dk += of_b.columns.at(3 * kv + i).dk.value;
      dv += of_b.columns.at(3 * kv + i).dv.value;
      EXPECT_EQ(of_a.rows.at(3 * kv + i).dq.value, of_b.rows.at(3 * kv + i).dq.value);
    }
    EXPECT_LT((of_a.columns.at(kv).dk.value - dk).cwiseAbs().maxCoeff(), 1e-13);
    EXPECT_LT((of_a.columns.at(kv).dv.value - dv).cwiseAbs().maxCoeff(), 1e-13);
  }
}

// Rows and columns looked at apart and in part are those of the look at all, on any number of
// threads.
TEST(OracleBackward, SampledRowsAndColumnsEqualThoseOfTheFullRun) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    TestProblem test({.pass = Pass::fwdbwd,
                      .dtype = dtype,
                      .num_heads_q = 4,
                      .num_heads_kv = 2,
                      .seqlen_q = 150,
                      .seqlen_k = 170,
                      .head_dim = 24,
                      .mask = parse_mask("causal"),
                      .dropout = 0.1});
    test.fill_normal(8);
    const References full = run(test);
    for (const std::int64_t keys : {4, 30, 200}) {
      const std::int64_t budget = 2 * (2 * 300 * 170 + 3 * 300 * keys) * 24;
      const Samples samples = choose_samples(test.problem, budget, 1);
      ASSERT_FALSE(samples.columns.empty());
      const References part = make_references(test.problem, test.tensors(), samples, 1);
      const References again = make_references(test.problem, test.tensors(), samples, 3);
      for (std::size_t s = 0; s < part.columns.size(); ++s) {
        const ColumnReference& some = part.columns[s];
        const auto slice = static_cast<std::size_t>(some.sample.head_kv);
        const ColumnReference& all = full.columns.at(slice);
        for (std::size_t i = 0; i < some.sample.keys.size(); ++i) {
          const auto here = static_cast<Eigen::Index>(i), there = some.sample.keys[i];
          const float twin_near = dtype == Dtype::f32 ? 1e-5f : 0.1f;
          EXPECT_TRUE(some.dk.value.row(here).isApprox(all.dk.value.row(there), 1e-12));
          EXPECT_TRUE(some.dv.value.row(here).isApprox(all.dv.value.row(there), 1e-12));
          EXPECT_TRUE(some.dk.twin.row(here).isApprox(all.dk.twin.row(there), twin_near));
          EXPECT_TRUE(some.dv.twin.row(here).isApprox(all.dv.twin.row(there), twin_near));
          EXPECT_EQ(some.seen[i], all.seen[static_cast<std::size_t>(there)]);
        }
        EXPECT_EQ(some.dk.value, again.columns[s].dk.value);
        EXPECT_EQ(some.dv.twin, again.columns[s].dv.twin);
        EXPECT_EQ(some.dk.sizes, again.columns[s].dk.sizes);
      }
      for (const RowReference& some : part.rows) {
        const RowReference& all = full.rows.at(static_cast<std::size_t>(some.sample.head));
        for (std::size_t i = 0; i < some.sample.rows.size(); ++i) {
          const auto here = static_cast<Eigen::Index>(i), there = some.sample.rows[i];
          ASSERT_EQ(some.dq.value.row(here), all.dq.value.row(there));
          ASSERT_EQ(some.dq.twin.row(here), all.dq.twin.row(there));
        }
      }
    }
  }
}

TEST(OracleBackward, MaskedKeysNeverEnterWhateverTheyHold) {
  Problem problem = {.pass = Pass::bwd,
                     .dtype = Dtype::f16,
                     .seqlen_q = 20,
                     .seqlen_k = 30,
                     .mask = parse_mask("padding")};
  problem.lengths = {.kind = LengthsKind::padding, .keys = {17}};
  TestProblem test(problem);
  test.fill_normal(4);
  const References small = run(test);
  for (std::int64_t r = 17; r < 30; ++r) {
    for (std::int64_t d = 0; d < 64; ++d) {
      test.k.set(0, 0, r, d, 6e4f);
      test.v.set(0, 0, r, d, -6e4f);
    }
  }
  const References large = run(test);
  EXPECT_EQ(small.rows[0].dq.value, large.rows[0].dq.value);
  EXPECT_EQ(small.rows[0].dq.twin, large.rows[0].dq.twin);
  EXPECT_EQ(small.rows[0].dq.sizes, large.rows[0].dq.sizes);
  EXPECT_EQ(small.columns[0].dk.value, large.columns[0].dk.value);
  EXPECT_EQ(small.columns[0].dv.twin, large.columns[0].dv.twin);
  EXPECT_EQ(small.columns[0].dk.sizes, large.columns[0].dk.sizes);
}

TEST(OracleBackward, TheTwinRoundsToTheStorageType) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    TestProblem test({.pass = Pass::bwd, .dtype = dtype, .seqlen_q = 64, .seqlen_k = 100});
    test.fill_normal(9);
    const References references = run(test);
    const double epsilon = unit_roundoff(dtype);
    for (const Expected* expected :
         {&references.rows[0].dq, &references.columns[0].dk, &references.columns[0].dv}) {
      for (Eigen::Index i = 0; i < expected->twin.size(); ++i) {
        const float twin = expected->twin.data()[i];
        ASSERT_EQ(twin, round_to_storage(dtype, twin));
      }
      const double error =
          (expected->twin.cast<double>() - expected->value).norm() / expected->value.norm();
      EXPECT_GT(error, epsilon / 8.0);
      EXPECT_LT(error, epsilon * 4.0);
    }
  }
}

}  // namespace
}  // namespace attnlab::reference
