#include "reference/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/dropout.h"
#include "reference/test_support.h"

namespace attnlab::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

std::vector<RowReference> run(TestProblem& test, int threads = 2) {
  const Samples samples = choose_samples(test.problem, kNoLimit, 0);
  return make_references(test.problem, test.tensors(), samples, threads).rows;
}

TEST(Oracle, OneKeyGivesV) {
  TestProblem test({.num_heads_q = 2, .num_heads_kv = 2, .seqlen_q = 3, .head_dim = 5});
  test.fill_normal(1);
  for (const RowReference& reference : run(test)) {
    for (std::int64_t r = 0; r < 3; ++r) {
      double score = 0.0, size = 0.0;
      for (std::int64_t d = 0; d < 5; ++d) {
        const double product = static_cast<double>(test.q.get(0, reference.sample.head, r, d)) *
                               static_cast<double>(test.k.get(0, reference.sample.head, 0, d));
        score += product / std::sqrt(5.0);
        size += std::abs(product) / std::sqrt(5.0);
        const double v = test.v.get(0, reference.sample.head, 0, d);
        EXPECT_EQ(reference.o.value(r, d), v);
        EXPECT_EQ(reference.o.twin(r, d), v);
        EXPECT_GE(static_cast<double>(reference.o.sizes(r)), 0.999999 * std::abs(v));
      }
      EXPECT_NEAR(reference.lse(r), score, 1e-14);
      EXPECT_NEAR(static_cast<double>(reference.score_bound(r)), size, 1e-6);
    }
  }
}

// Scores are ln 3 and 0, so weights are 3/4 and 1/4.
TEST(Oracle, TwoKeysByHand) {
  TestProblem test({.seqlen_q = 1, .seqlen_k = 2, .head_dim = 2, .softmax_scale = std::log(3.0)});
  test.fill_q([](auto, auto, auto, std::int64_t d) { return d == 0 ? 1.0f : 0.5f; });
  test.fill_k([](auto, auto, std::int64_t r, std::int64_t d) {
    if (r == 0) return d == 0 ? 2.0f : -2.0f;  // 2 - 1 = 1, absolute 3
    return 0.0f;
  });
  test.fill_v([](auto, auto, std::int64_t r, std::int64_t d) {
    if (d == 1) return r == 0 ? -4.0f : 4.0f;
    return r == 0 ? 8.0f : 16.0f;
  });
  const RowReference reference = run(test).at(0);
  EXPECT_NEAR(reference.o.value(0, 0), 0.75 * 8.0 + 0.25 * 16.0, 1e-14);
  EXPECT_NEAR(reference.o.value(0, 1), -2.0, 1e-14);
  EXPECT_NEAR(reference.lse(0), std::log(4.0), 1e-14);
  const double score_bound = 3.0 * std::log(3.0);
  EXPECT_NEAR(static_cast<double>(reference.score_bound(0)), score_bound, 1e-6);
  EXPECT_NEAR(static_cast<double>(reference.o.sizes(0)), 10.0 * (1.0 + score_bound / 32.0),
              1e-5);  // 10 > 4
  EXPECT_NEAR(reference.o.twin(0, 0), 10.0, 1e-5);
}

// A score is 16, of one product or of 256 alike: what fp32 loses in its sum is sizes' factor.
TEST(Oracle, LongSumsOfLargeScoresMakeSizesLarger) {
  TestProblem test({.seqlen_q = 2, .seqlen_k = 2, .head_dim = 256, .mask = parse_mask("causal")});
  test.fill_q([](auto, auto, std::int64_t r, std::int64_t d) {
    if (r == 1) return 1.0f;
    return d == 0 ? 16.0f : 0.0f;
  });
  test.fill_k([](auto, auto, std::int64_t r, std::int64_t d) {
    if (r == 1) return 1.0f;
    return d == 0 ? 16.0f : 0.0f;
  });
  test.fill_v([](auto...) { return 3.0f; });
  const RowReference reference = run(test).at(0);
  EXPECT_EQ(reference.score_bound(0), 16.0f);
  EXPECT_EQ(reference.score_bound(1), 16.0f);
  // head_dim (s^2 + s n + n^2) / 3, n is 16 and 1
  EXPECT_NEAR(static_cast<double>(reference.o.sizes(0)), 3.0 * 16.0 * 16.0 / 32.0, 1e-4);
  EXPECT_NEAR(static_cast<double>(reference.o.sizes(1)),
              3.0 * 16.0 * std::sqrt((256.0 + 16.0 + 1.0) / 3.0) / 32.0, 1e-4);
}

TEST(Oracle, EqualScoresGiveTheMeanOfWhatIsVisible) {
  TestProblem test({.seqlen_q = 4, .seqlen_k = 4, .head_dim = 1, .mask = parse_mask("causal")});
  test.fill_q([](auto...) { return 0.0f; });
  test.fill_k([](auto...) { return 3.0f; });
  test.fill_v([](auto, auto, std::int64_t r, auto) { return static_cast<float>(r); });
  const RowReference reference = run(test).at(0);
  for (std::int64_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(reference.o.value(r, 0), static_cast<double>(r) / 2.0, 1e-15);  // mean of 0 ... r
    EXPECT_NEAR(reference.lse(r), std::log(static_cast<double>(r) + 1.0), 1e-15);
  }
}

TEST(Oracle, ValuesOfOneGiveOne) {
  TestProblem test({.num_heads_q = 2, .num_heads_kv = 1, .seqlen_q = 33, .seqlen_k = 700});
  test.fill_normal(2);
  test.fill_v([](auto...) { return 1.0f; });
  for (const RowReference& reference : run(test)) {
    EXPECT_LT((reference.o.value.array() - 1.0).abs().maxCoeff(), 1e-13);
    EXPECT_LT((reference.o.twin.array() - 1.0).abs().maxCoeff(), 1e-5);
    const double score_bound = static_cast<double>(reference.score_bound.maxCoeff());
    EXPECT_NEAR(static_cast<double>(reference.o.sizes.maxCoeff()), 1.0 + score_bound / 32.0, 1e-6);
  }
}

TEST(Oracle, RowsThatSeeNothing) {
  Problem problem = {.batch = 2, .seqlen_q = 5, .seqlen_k = 3, .mask = parse_mask("causal")};
  problem.mask.padding.emplace();
  problem.lengths = {.kind = LengthsKind::padding, .keys = {3, 0}};
  TestProblem test(problem);
  test.fill_normal(3);
  const auto references = run(test);
  for (const RowReference& reference : references) {
    const std::int64_t empty = reference.sample.batch == 0 ? 2 : 5;
    for (std::int64_t r = 0; r < 5; ++r) {
      EXPECT_EQ(reference.lse(r) == -kInfinite, r < empty);
      EXPECT_EQ(reference.o.value.row(r).isZero(0.0), r < empty);
      EXPECT_EQ(reference.o.twin.row(r).isZero(0.0), r < empty);
      EXPECT_EQ(reference.score_bound(r) == 0.0f, r < empty);
    }
  }
  EXPECT_TRUE(references.at(1).o.sizes.isZero(0.0f));
}

TEST(Oracle, MaskedKeysNeverEnterWhateverTheyHold) {
  Problem problem = {.seqlen_q = 20, .seqlen_k = 30, .mask = parse_mask("padding")};
  problem.lengths = {.kind = LengthsKind::padding, .keys = {17}};
  TestProblem test(problem);
  test.fill_normal(4);
  const RowReference small = run(test).at(0);
  for (std::int64_t r = 17; r < 30; ++r) {
    for (std::int64_t d = 0; d < 64; ++d) {
      test.k.set(0, 0, r, d, 1e30f);
      test.v.set(0, 0, r, d, -1e30f);
    }
  }
  const RowReference large = run(test).at(0);
  EXPECT_EQ(small.o.value, large.o.value);
  EXPECT_EQ(small.lse, large.lse);
  EXPECT_EQ(small.o.twin, large.o.twin);
  EXPECT_EQ(small.score_bound, large.score_bound);
  EXPECT_EQ(small.o.sizes, large.o.sizes);
}

TEST(Oracle, SharedHeadsAreRepeatedHeads) {
  const Problem shared = {.batch = 2,
                          .num_heads_q = 6,
                          .num_heads_kv = 2,
                          .seqlen_q = 9,
                          .seqlen_k = 11,
                          .head_dim = 7,
                          .mask = parse_mask("window:4:2")};
  Problem repeated = shared;
  repeated.num_heads_kv = 6;
  TestProblem a(shared), b(repeated);
  a.fill_normal(5);
  b.fill_q([&](auto... at) { return a.q.get(at...); });
  b.fill_k([&](auto i, auto h, auto r, auto d) { return a.k.get(i, h / 3, r, d); });
  b.fill_v([&](auto i, auto h, auto r, auto d) { return a.v.get(i, h / 3, r, d); });
  const auto of_a = run(a), of_b = run(b);
  ASSERT_EQ(of_a.size(), 12u);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    EXPECT_EQ(of_a[i].o.value, of_b[i].o.value);
    EXPECT_EQ(of_a[i].lse, of_b[i].lse);
  }
}

TEST(Oracle, LayoutsAgree) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    Problem problem = {.dtype = dtype,
                       .batch = 3,
                       .num_heads_q = 4,
                       .num_heads_kv = 2,
                       .seqlen_q = 10,
                       .seqlen_k = 13,
                       .head_dim = 6,
                       .mask = parse_mask("causal"),
                       .dropout = 0.2,
                       .seed = 9};
    TestProblem bshd(problem);
    problem.layout = Layout::bhsd;
    TestProblem bhsd(problem);
    problem.layout = Layout::packed;
    problem.lengths = {.kind = LengthsKind::packed, .queries = {10, 10, 10}, .keys = {13, 13, 13}};
    TestProblem packed(problem);
    for (TestProblem* test : {&bshd, &bhsd, &packed}) test->fill_normal(6);
    const auto a = run(bshd), b = run(bhsd), c = run(packed);
    ASSERT_EQ(a.size(), 12u);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].o.value, b[i].o.value);
      EXPECT_EQ(a[i].o.value, c[i].o.value);
      EXPECT_EQ(a[i].o.twin, b[i].o.twin);
      EXPECT_EQ(a[i].o.twin, c[i].o.twin);
      EXPECT_GT(a[i].o.value.norm(), 0.1);
    }
  }
}

TEST(Oracle, PackedIsALoopOfDenseProblems) {
  Problem problem = {.batch = 3,
                     .num_heads_q = 2,
                     .num_heads_kv = 1,
                     .seqlen_q = 8,
                     .seqlen_k = 9,
                     .head_dim = 4,
                     .mask = parse_mask("causal")};
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {8, 3, 5}, .keys = {4, 9, 0}};
  TestProblem packed(problem);
  packed.fill_normal(7);
  for (const RowReference& reference : run(packed)) {
    const Sample& sample = reference.sample;
    if (problem.keys(sample.batch) == 0) {
      EXPECT_TRUE(reference.o.value.isZero(0.0));
      EXPECT_TRUE((reference.lse.array() == -kInfinite).all());
      continue;
    }
    TestProblem dense({.num_heads_q = 2,
                       .num_heads_kv = 1,
                       .seqlen_q = problem.queries(sample.batch),
                       .seqlen_k = problem.keys(sample.batch),
                       .head_dim = 4,
                       .mask = problem.mask});
    const auto from = [&](const TestTensor& tensor) {
      return [&](auto, auto h, auto r, auto d) { return tensor.get(sample.batch, h, r, d); };
    };
    dense.fill_q(from(packed.q));
    dense.fill_k(from(packed.k));
    dense.fill_v(from(packed.v));
    const RowReference alone = run(dense).at(static_cast<std::size_t>(sample.head));
    EXPECT_EQ(reference.o.value, alone.o.value);
    EXPECT_EQ(reference.lse, alone.lse);
  }
}

TEST(Oracle, DroppedElementsLeaveLseAndScaleTheRest) {
  Problem problem = {.batch = 2,
                     .num_heads_q = 2,
                     .num_heads_kv = 2,
                     .seqlen_q = 6,
                     .seqlen_k = 40,
                     .head_dim = 1,
                     .seed = 11};
  TestProblem plain(problem);
  problem.dropout = 0.25;
  TestProblem dropped(problem);
  for (TestProblem* test : {&plain, &dropped}) {
    test->fill_q([](auto...) { return 0.0f; });
    test->fill_k([](auto...) { return 0.0f; });
    test->fill_v([](auto, auto, auto r, auto) { return static_cast<float>(r + 1); });
  }
  const auto without = run(plain), with = run(dropped);
  for (std::size_t i = 0; i < with.size(); ++i) {
    EXPECT_EQ(without[i].lse, with[i].lse);
    for (std::int64_t r = 0; r < 6; ++r) {
      double sum = 0.0;
      for (std::int64_t c = 0; c < 40; ++c) {
        const Sample& sample = with[i].sample;
        if (element_is_kept(problem, sample.batch, sample.head, r, c)) {
          sum += static_cast<double>(c + 1);
        }
      }
      EXPECT_NEAR(with[i].o.value(r, 0), sum / 40.0 / 0.75, 1e-12);
      EXPECT_NEAR(with[i].o.twin(r, 0), sum / 40.0 / 0.75, 1e-4);
    }
  }
}

TEST(Oracle, SampledRowsEqualThoseOfTheFullRun) {
  const struct {
    std::int64_t seqlen_q, seqlen_k, head_dim;
  } sizes[] = {{150, 700, 32}, {5, 5, 6},  {131, 1, 1}, {130, 7, 3},
               {70, 513, 1},   {5, 20, 2}, {97, 65, 33}};
  for (const auto& size : sizes) {
    TestProblem test({.num_heads_q = 3,
                      .num_heads_kv = 3,
                      .seqlen_q = size.seqlen_q,
                      .seqlen_k = size.seqlen_k,
                      .head_dim = size.head_dim,
                      .mask = parse_mask("causal")});
    test.fill_normal(8);
    const auto full = run(test);
    for (const std::int64_t rows : {2, 5, 40, 90}) {
      const auto samples =
          choose_samples(test.problem, rows * 2 * size.seqlen_k * size.head_dim, 1);
      const References sampled = make_references(test.problem, test.tensors(), samples, 1);
      for (const RowReference& part : sampled.rows) {
        const RowReference& whole = full.at(static_cast<std::size_t>(part.sample.head));
        for (std::size_t i = 0; i < part.sample.rows.size(); ++i) {
          const Eigen::Index here = static_cast<Eigen::Index>(i), there = part.sample.rows[i];
          ASSERT_EQ(part.o.value.row(here), whole.o.value.row(there)) << test.problem.id();
          ASSERT_EQ(part.o.twin.row(here), whole.o.twin.row(there)) << test.problem.id();
          ASSERT_EQ(part.lse(here), whole.lse(there)) << test.problem.id();
          ASSERT_EQ(part.score_bound(here), whole.score_bound(there)) << test.problem.id();
        }
      }
    }
  }
}

TEST(Oracle, TheTwinRoundsToTheStorageType) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    TestProblem test({.dtype = dtype, .seqlen_q = 64, .seqlen_k = 200});
    test.fill_normal(9);
    const RowReference reference = run(test).at(0);
    double error = 0.0;
    for (std::int64_t i = 0; i < reference.o.value.size(); ++i) {
      const float twin = static_cast<float>(reference.o.twin.data()[i]);
      const float rounded = dtype == Dtype::f16 ? f32_from_f16(f16_from_f32(twin))
                                                : f32_from_bf16(bf16_from_f32(twin));
      ASSERT_EQ(twin, rounded);
      error = std::max(error, std::abs(reference.o.twin.data()[i] - reference.o.value.data()[i]));
    }
    // P is near 1/200 and |O| below 1: errors are of the order of the type's epsilon, not fp32's.
    const double epsilon = dtype == Dtype::f16 ? 0x1p-11 : 0x1p-8;
    EXPECT_GT(error, epsilon / 16.0);
    EXPECT_LT(error, epsilon * 2.0);
  }
}

TEST(Oracle, AnUnknownPatternReachesTheCallerFromAnyThread) {
  const BlocksSpec stars = {.pattern = "stars", .block_q = 4, .block_k = 4};
  TestProblem test({.seqlen_q = 300, .seqlen_k = 300, .head_dim = 2, .mask = {.blocks = stars}});
  test.fill_normal(10);
  EXPECT_THROW(run(test, 4), std::invalid_argument);
}

}  // namespace
}  // namespace attnlab::reference
