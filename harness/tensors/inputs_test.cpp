#include "harness/tensors/inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "harness/plan/accounting.h"
#include "kernels/shared/convert.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kSeed = 7;

std::vector<float> fill(InputTensor tensor, const Problem& problem, InputKind kind,
                        std::uint64_t seed = kSeed, int threads = 1) {
  const bool like_q = tensor == InputTensor::q || tensor == InputTensor::dout;
  const std::int64_t elements = like_q ? problem.elements_q() : problem.elements_k();
  std::vector<float> values(static_cast<std::size_t>(elements));
  fill_input(tensor, problem, kind, seed, threads, values.data());
  return values;
}

Problem small_problem() {
  return {
      .batch = 2, .num_heads_q = 4, .num_heads_kv = 2, .seqlen_q = 5, .seqlen_k = 9, .head_dim = 6};
}

// Makes 2^20 elements: enough for moments.
Problem large_problem() {
  return {.num_heads_q = 4, .num_heads_kv = 4, .seqlen_q = 4096, .seqlen_k = 4096};
}

struct Moments {
  double mean = 0.0, variance = 0.0, kurtosis = 0.0, largest = 0.0;
};

Moments moments(std::span<const float> values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (float value : values) m.mean += value / n;
  for (float value : values) {
    const double d = value - m.mean;
    m.variance += d * d / n;
    m.kurtosis += d * d * d * d / n;
    m.largest = std::max(m.largest, std::abs(static_cast<double>(value)));
  }
  m.kurtosis /= m.variance * m.variance;
  return m;
}

TEST(Inputs, NormalHasItsMoments) {
  const Moments m = moments(fill(InputTensor::k, large_problem(), InputKind::normal));
  EXPECT_NEAR(m.mean, 0.0, 0.005);
  EXPECT_NEAR(m.variance, 1.0, 0.007);
  EXPECT_NEAR(m.kurtosis, 3.0, 0.03);
}

TEST(Inputs, NormalValuesHaveFullMantissas) {
  int low_bit_set = 0;
  const std::vector<float> values = fill(InputTensor::q, small_problem(), InputKind::normal);
  for (float value : values) low_bit_set += static_cast<int>(bit_cast<u32>(value) & 1u);
  EXPECT_NEAR(low_bit_set, static_cast<double>(values.size()) / 2, 50.0);
}

TEST(Inputs, UniformFillsItsRange) {
  const Moments m = moments(fill(InputTensor::v, large_problem(), InputKind::uniform));
  EXPECT_NEAR(m.mean, 0.0, 0.003);
  EXPECT_NEAR(m.variance, 1.0 / 3.0, 0.003);
  EXPECT_LE(m.largest, 1.0);
  EXPECT_GT(m.largest, 0.999);
}

TEST(Inputs, IntegersAreSmallAndMostlyZero) {
  const std::vector<float> values = fill(InputTensor::q, large_problem(), InputKind::integers);
  std::map<int, int> count;
  for (float value : values) {
    ASSERT_EQ(value, std::round(value));
    ASSERT_LE(std::abs(value), 3.0f);
    ++count[static_cast<int>(value)];
  }
  const auto n = static_cast<double>(values.size());
  for (int value = -3; value <= 3; ++value) {
    const double share = count[value] / n;
    EXPECT_NEAR(share, value == 0 ? 0.8 : 0.2 / 6, 0.002) << value;
  }
}

TEST(Inputs, LargeLogitsScaleQueriesOnly) {
  const Problem problem = small_problem();
  const std::vector<float> plain = fill(InputTensor::q, problem, InputKind::normal);
  const std::vector<float> large = fill(InputTensor::q, problem, InputKind::large_logits);
  for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(large[i], 16.0f * plain[i]);
  for (const InputTensor tensor : {InputTensor::k, InputTensor::dout}) {
    EXPECT_EQ(fill(tensor, problem, InputKind::large_logits),
              fill(tensor, problem, InputKind::normal));
  }
}

TEST(Inputs, TheGradientHasNumbersOfItsOwn) {
  Problem problem = large_problem();
  const std::vector<float> dout = fill(InputTensor::dout, problem, InputKind::normal);
  const Moments m = moments(dout);
  EXPECT_NEAR(m.mean, 0.0, 0.005);
  EXPECT_NEAR(m.variance, 1.0, 0.007);
  for (const InputTensor other : {InputTensor::q, InputTensor::k, InputTensor::v}) {
    const std::vector<float> values = fill(other, problem, InputKind::normal);
    double correlation = 0.0;
    for (std::size_t i = 0; i < dout.size(); ++i) correlation += double{dout[i]} * values[i];
    EXPECT_NEAR(correlation / static_cast<double>(dout.size()), 0.0, 0.005);
  }
}

TEST(Inputs, TheGradientIsThereForABackwardOnly) {
  Problem problem = small_problem();
  Arena arena;
  const Inputs forward(arena, problem, InputKind::normal, kSeed, 1);
  EXPECT_EQ(forward.tensors().dout, nullptr);
  EXPECT_EQ(arena.current_bytes(), bytes_of_inputs(problem));
  for (const Pass pass : {Pass::bwd, Pass::fwdbwd}) {
    problem.pass = pass;
    Arena own;
    const Inputs inputs(own, problem, InputKind::normal, kSeed, 1);
    EXPECT_EQ(own.current_bytes(), bytes_of_inputs(problem));
    const std::vector<float> expected = fill(InputTensor::dout, problem, InputKind::normal);
    const auto* dout = static_cast<const float*>(inputs.tensors().dout);
    ASSERT_NE(dout, nullptr);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), dout));
  }
}

TEST(Inputs, OutliersAreOneInAThousandWithDeviationTen) {
  const std::vector<float> plain = fill(InputTensor::q, large_problem(), InputKind::normal);
  const std::vector<float> values = fill(InputTensor::q, large_problem(), InputKind::outlier);
  std::vector<float> added;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != plain[i]) added.push_back(values[i] - plain[i]);
  }
  EXPECT_NEAR(static_cast<double>(added.size()) / static_cast<double>(values.size()), 0.001,
              0.0002);
  EXPECT_NEAR(moments(added).variance, 100.0, 18.0);
}

TEST(Inputs, AnOutlierChannelIsOneColumnOfQKV) {
  const Problem problem = small_problem();
  for (const InputTensor tensor :
       {InputTensor::q, InputTensor::k, InputTensor::v, InputTensor::dout}) {
    const std::vector<float> plain = fill(tensor, problem, InputKind::normal);
    const std::vector<float> values = fill(tensor, problem, InputKind::outlier_channel);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const bool is_large =
          tensor != InputTensor::dout && i % static_cast<std::size_t>(problem.head_dim) == 0;
      ASSERT_EQ(values[i], is_large ? 10.0f * plain[i] : plain[i]);
    }
  }
}

TEST(Inputs, ValuesDoNotDependOnLayoutOrThreads) {
  Problem problem = small_problem();
  for (const InputTensor tensor :
       {InputTensor::q, InputTensor::k, InputTensor::v, InputTensor::dout}) {
    problem.layout = Layout::bshd;
    const Shape shape = make_shape(problem);
    const std::vector<float> bshd = fill(tensor, problem, InputKind::outlier);
    EXPECT_EQ(bshd, fill(tensor, problem, InputKind::outlier, kSeed, 3));
    problem.layout = Layout::bhsd;
    const Shape other = make_shape(problem);
    const std::vector<float> bhsd = fill(tensor, problem, InputKind::outlier);
    const bool is_q = tensor == InputTensor::q || tensor == InputTensor::dout;
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < (is_q ? 4 : 2); ++h) {
        for (std::int64_t r = 0; r < (is_q ? 5 : 9); ++r) {
          const std::int64_t from = (is_q ? shape.q : shape.k).offset(b, h, r);
          const std::int64_t to = (is_q ? other.q : other.k).offset(b, h, r);
          for (std::int64_t c = 0; c < 6; ++c) {
            ASSERT_EQ(bshd[static_cast<std::size_t>(from + c)],
                      bhsd[static_cast<std::size_t>(to + c)]);
          }
        }
      }
    }
  }
}

TEST(Inputs, EveryIndexAndTheSeedMatter) {
  const Problem problem = small_problem();
  std::vector<float> all = fill(InputTensor::k, problem, InputKind::normal);
  for (const auto& more :
       {fill(InputTensor::v, problem, InputKind::normal),
        fill(InputTensor::q, problem, InputKind::normal),
        fill(InputTensor::k, problem, InputKind::normal, kSeed + 1),
        fill(InputTensor::k, problem, InputKind::normal, kSeed + (std::uint64_t{1} << 32))}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  std::sort(all.begin(), all.end());
  // Far fewer than all pairs collide by chance among 2^23 mantissas.
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

TEST(Inputs, PaddedKeysAreLargeAndFinite) {
  Problem problem = small_problem();
  problem.mask = parse_mask("padding");
  problem.lengths = {.kind = LengthsKind::padding, .keys = {9, 3}};
  Problem dense = small_problem();
  const Strides strides = make_shape(problem).k;
  for (const InputTensor tensor : {InputTensor::k, InputTensor::v}) {
    const std::vector<float> padded = fill(tensor, problem, InputKind::normal);
    const std::vector<float> plain = fill(tensor, dense, InputKind::normal);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t r = 0; r < 9; ++r) {
        const auto i = static_cast<std::size_t>(strides.offset(b, 1, r));
        if (r < problem.keys(b)) {
          EXPECT_EQ(padded[i], plain[i]);
        } else {
          EXPECT_EQ(std::abs(padded[i]), 1e4f);
          EXPECT_EQ(padded[i + 1], -padded[i]) << "signs alternate";
        }
      }
    }
  }
}

TEST(Inputs, PackedEntriesHoldTheDenseValues) {
  const Problem dense = small_problem();
  Problem packed = dense;
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed, .queries = {2, 5}, .keys = {4, 9}};
  const std::vector<float> values = fill(InputTensor::k, packed, InputKind::normal);
  const std::vector<float> plain = fill(InputTensor::k, dense, InputKind::normal);
  const Strides packed_strides = make_shape(packed).k;
  const Strides strides = make_shape(dense).k;
  for (std::int64_t r = 0; r < 9; ++r) {
    EXPECT_EQ(values[static_cast<std::size_t>(packed_strides.offset(1, 1, 4 + r))],
              plain[static_cast<std::size_t>(strides.offset(1, 1, r))]);
  }
}

TEST(Inputs, HalfTypesAreTheRoundedFloats) {
  Problem problem = small_problem();
  const std::vector<float> exact = fill(InputTensor::q, problem, InputKind::normal);
  std::vector<u16> bits(exact.size());
  problem.dtype = Dtype::f16;
  fill_input(InputTensor::q, problem, InputKind::normal, kSeed, 1, bits.data());
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(bits[i], f16_from_f32(exact[i]));
  problem.dtype = Dtype::bf16;
  fill_input(InputTensor::q, problem, InputKind::normal, kSeed, 1, bits.data());
  for (std::size_t i = 0; i < bits.size(); ++i) ASSERT_EQ(bits[i], bf16_from_f32(exact[i]));
}

// Inputs drawn anew in another layout are the same as those copied there from the first, also where
// padding hides them. A change of the first one shows that it was copied.
TEST(Inputs, AnotherLayoutIsCopied) {
  Problem bshd = small_problem();
  bshd.pass = Pass::fwdbwd;
  bshd.mask = parse_mask("padding");
  bshd.lengths = {.kind = LengthsKind::padding, .keys = {4, 9}};
  Problem bhsd = bshd;
  bhsd.layout = Layout::bhsd;
  Arena arena(host_runtime());
  Inputs first(arena, bshd, InputKind::normal, kSeed, 2);
  const Inputs drawn(arena, bhsd, InputKind::normal, kSeed, 2);
  const Inputs copied(arena, bhsd, first, 3);
  const auto same = [&](const void* a, const void* b, std::int64_t elements) {
    return std::memcmp(a, b, static_cast<std::size_t>(elements) * sizeof(float)) == 0;
  };
  const std::int64_t like_q = bhsd.elements_q(), like_k = bhsd.elements_k();
  EXPECT_TRUE(same(copied.tensors().q, drawn.tensors().q, like_q));
  EXPECT_TRUE(same(copied.tensors().k, drawn.tensors().k, like_k));
  EXPECT_TRUE(same(copied.tensors().v, drawn.tensors().v, like_k));
  EXPECT_TRUE(same(copied.tensors().dout, drawn.tensors().dout, like_q));
  EXPECT_EQ(copied.tensors().keys[1], 9);
  first.fill(InputTensor::q, [](auto b, auto head, auto row, auto col) {
    return static_cast<float>(((b * 4 + head) * 5 + row) * 6 + col);
  });
  const Inputs changed(arena, bhsd, first, 1);
  const auto* const q = static_cast<const float*>(changed.tensors().q);
  for (std::int64_t i = 0; i < like_q; ++i) EXPECT_EQ(q[i], static_cast<float>(i));
}

TEST(Inputs, ArenaHoldsWhatWasAnnounced) {
  Problem padded = small_problem();
  padded.mask = parse_mask("padding");
  padded.lengths = {.kind = LengthsKind::padding, .keys = {9, 3}};
  Problem packed = small_problem();
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed, .queries = {2, 5}, .keys = {4, 9}};
  Problem blocks = small_problem();
  blocks.seqlen_q = blocks.seqlen_k = 70;
  blocks.mask = parse_mask("blocks:butterfly:16x32");
  for (const Problem& problem : {small_problem(), padded, packed, blocks}) {
    Arena arena;
    const Inputs inputs(arena, problem, InputKind::normal, kSeed, 2);
    EXPECT_EQ(arena.current_bytes(), bytes_of_inputs(problem)) << problem.id();
    EXPECT_EQ(arena.restore_guards(), "");
    EXPECT_EQ(inputs.tensors().o, nullptr);
  }
  Arena arena;
  const Inputs inputs(arena, packed, InputKind::normal, kSeed, 1);
  EXPECT_EQ(inputs.tensors().cu_seqlens_q[1], 2);
  EXPECT_EQ(inputs.tensors().cu_seqlens_k[2], 13);
  const Inputs masked(arena, padded, InputKind::normal, kSeed, 1);
  EXPECT_EQ(masked.tensors().keys[1], 3);
  const Inputs patterned(arena, blocks, InputKind::normal, kSeed, 1);
  EXPECT_EQ(patterned.tensors().block_pattern[0], 1);
}

}  // namespace
}  // namespace attnlab
