// Tests the quantisation of whole problems: which scale a code has, what padding becomes, and where
// V^T's keys lie, element by element.
#include "kernels/api/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/api/test_quantised.h"
#include "kernels/shared/quantise.h"

namespace attnlab {
namespace {

struct Drawn {
  explicit Drawn(const Problem& problem)
      : q(static_cast<std::size_t>(problem.elements_q())),
        k(static_cast<std::size_t>(problem.elements_k())),
        v(k.size()) {
    u32 state = 1;
    for (std::vector<float>* tensor : {&q, &k, &v}) {
      for (float& value : *tensor) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(static_cast<i32>(state)) * 0x1p-30f;
      }
    }
  }

  std::vector<float> q, k, v;
};

// Quantised holds a problem's inputs and what became of them.
struct Quantised : Drawn, QuantisedOnCpu {
  explicit Quantised(const Problem& problem, int threads = 2)
      : Drawn(problem), QuantisedOnCpu(problem, q, k, v, threads) {}
};

Problem small() {
  Problem problem;
  problem.dtype = Dtype::e4m3;
  problem.batch = 2;
  problem.num_heads_q = 4;
  problem.num_heads_kv = 2;
  problem.seqlen_q = 150;
  problem.seqlen_k = 270;
  problem.head_dim = 48;
  problem.quantisation.rotate = false;
  return problem;
}

// Every code of V is that of its value under the scale that is said to be its own.
TEST(QuantiseProblem, CodesHaveTheirScale) {
  for (const ScaleOf scale_of :
       {ScaleOf::tensor, ScaleOf::head, ScaleOf::block, ScaleOf::channel}) {
    Problem problem = small();
    problem.quantisation.v = scale_of;
    const Quantised got(problem);
    const Shape shape = make_shape(problem);
    std::vector<float> amax(got.scale_v.size(), 0.0f);
    const auto scale_index = [&](i64 b, i64 h, i64 key, i64 column) {
      const i64 head = b * problem.num_heads_kv + h;
      return static_cast<std::size_t>(scale_of == ScaleOf::channel
                                          ? head * problem.head_dim + column
                                          : head * 3 + key / kScaleRows);
    };
    for (i64 b = 0; b < 2; ++b) {
      for (i64 h = 0; h < 2; ++h) {
        for (i64 key = 0; key < problem.seqlen_k; ++key) {
          for (i64 column = 0; column < problem.head_dim; ++column) {
            const auto at = static_cast<std::size_t>(shape.k.offset(b, h, key) + column);
            const std::size_t index = scale_index(b, h, key, column);
            amax[index] = std::max(amax[index], std::abs(got.v[at]));
            const float multiplier = 1.0f / got.scale_v[index];
            ASSERT_EQ(got.codes_v[at], e4m3_from_f32(got.v[at] * multiplier))
                << to_string(scale_of);
          }
        }
      }
    }
    // Blocks and channels have an amax of their own; head and tensor repeat the largest of all.
    std::vector<float> largest = amax;
    const std::size_t span = scale_of == ScaleOf::tensor ? amax.size()
                             : scale_of == ScaleOf::head ? 3
                                                         : 1;
    for (std::size_t i = 0; i < amax.size(); ++i) {
      for (std::size_t j = i / span * span; j < (i / span + 1) * span; ++j) {
        largest[i] = std::max(largest[i], amax[j]);
      }
      ASSERT_EQ(got.scale_v[i], largest[i] / 448.0f) << to_string(scale_of) << " " << i;
    }
  }
}

TEST(QuantiseProblem, TransposedVHasItsKeysInSlotsAndZerosBehind) {
  for (const bool packed : {false, true}) {
    Problem problem = small();
    if (packed) {
      problem.layout = Layout::packed;
      problem.lengths = {LengthsKind::packed, false, {150, 7}, {200, 270}};
    }
    ASSERT_EQ(invalid(problem), "");
    const Quantised got(problem);
    const Shape shape = make_shape(problem);
    i64 first_key = 0, nonzero = 0;
    for (i64 b = 0; b < 2; ++b) {
      const i64 keys = problem.keys(b);
      for (i64 h = 0; h < 2; ++h) {
        for (i64 column = 0; column < problem.head_dim; ++column) {
          for (i64 slot = 0; slot < round_up(keys, kScaleRows); ++slot) {
            const i64 key = slot / 16 * 16 + key_of_slot(slot % 16);
            const u8 wanted = key < keys ? got.codes_v[static_cast<std::size_t>(
                                               shape.k.offset(b, h, first_key + key) + column)]
                                         : u8{0};
            const i64 at = v_transposed_offset(problem, b, h, column) + slot;
            ASSERT_EQ(got.transposed.at(static_cast<std::size_t>(at)), wanted) << b << " " << slot;
            nonzero += wanted != 0;
          }
        }
      }
      if (packed) first_key += keys;
    }
    EXPECT_GT(nonzero, 1000);
    i64 all = 0;
    for (const u8 code : got.transposed) all += code != 0;
    EXPECT_EQ(all, nonzero);  // nothing but zeros elsewhere
  }
}

TEST(QuantiseProblem, KeysThatPaddingHidesAreZerosAndHaveNoAmax) {
  Problem problem = small();
  problem.mask.padding.emplace();
  problem.lengths = {LengthsKind::padding, false, {}, {130, 0}};
  ASSERT_EQ(invalid(problem), "");
  const Quantised got(problem);
  const Shape shape = make_shape(problem);
  for (i64 b = 0; b < 2; ++b) {
    for (i64 key = problem.keys(b); key < problem.seqlen_k; ++key) {
      const auto at = static_cast<std::size_t>(shape.k.offset(b, 1, key));
      ASSERT_EQ(got.codes_k[at], 0);
      ASSERT_EQ(got.codes_v[at], 0);
    }
  }
  float amax = 0.0f;
  for (i64 key = 128; key < 130; ++key) {
    for (i64 c = 0; c < 48; ++c) {
      amax =
          std::max(amax, std::abs(got.k[static_cast<std::size_t>(shape.k.offset(0, 0, key) + c)]));
    }
  }
  EXPECT_EQ(got.scale_k[1], amax / 448.0f);
  EXPECT_EQ(got.scale_k[2], 1.0f);
  EXPECT_EQ(got.scale_k[6], 1.0f);
}

// Q K^T is what it was, up to e4m3's rounding: query heads have the signs of the K head they meet.
TEST(QuantiseProblem, RotationKeepsScores) {
  Problem problem = small();
  problem.quantisation.rotate = true;
  const Quantised got(problem);
  const Shape shape = make_shape(problem);
  double error = 0.0, size = 0.0;
  for (i64 h = 0; h < 4; ++h) {
    for (i64 row = 0; row < 32; ++row) {
      double exact = 0.0, rotated = 0.0;
      for (i64 c = 0; c < 48; ++c) {
        const auto at_q = static_cast<std::size_t>(shape.q.offset(1, h, row) + c);
        const auto at_k = static_cast<std::size_t>(shape.k.offset(1, h / 2, row) + c);
        exact += double(got.q[at_q]) * double(got.k[at_k]);
        rotated +=
            double(f32_from_e4m3(got.codes_q[at_q])) * double(f32_from_e4m3(got.codes_k[at_k]));
      }
      rotated *= double(got.scale_q[static_cast<std::size_t>((4 + h) * 2)]) *
                 double(got.scale_k[static_cast<std::size_t>((2 + h / 2) * 3)]);
      error += (rotated - exact) * (rotated - exact);
      size += exact * exact;
    }
  }
  EXPECT_LT(std::sqrt(error / size), 0.06);
  EXPECT_GT(std::sqrt(error / size), 0.005);
}

TEST(QuantiseProblem, ThreadsChangeNothing) {
  const Quantised one(small(), 1), three(small(), 3);
  EXPECT_EQ(one.codes_q, three.codes_q);
  EXPECT_EQ(one.codes_k, three.codes_k);
  EXPECT_EQ(one.transposed, three.transposed);
  EXPECT_EQ(one.scale_q, three.scale_q);
}

}  // namespace
}  // namespace attnlab
