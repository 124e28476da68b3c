// The laboratory's quantisation and the oracle's own are two texts of one definition: they must say
// the same of every element, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/api/test_quantised.h"
#include "kernels/shared/quantise.h"
#include "reference/judged_inputs.h"

namespace attnlab {
namespace {

struct Inputs {
  explicit Inputs(const Problem& problem) {
    std::mt19937_64 random(problem.seed);
    std::normal_distribution<float> normal;
    for (auto* tensor : {&q, &k, &v}) {
      tensor->resize(
          static_cast<std::size_t>(tensor == &q ? problem.elements_q() : problem.elements_k()));
      for (float& value : *tensor) value = normal(random) * (random() % 50 == 0 ? 20.0f : 1.0f);
    }
  }
  std::vector<float> q, k, v;
};

std::uint32_t bits(float value) { return bit_cast<std::uint32_t>(value); }

// Compares all rows that exist of one tensor.
void expect_same(const Problem& problem, bool is_query, const std::vector<std::uint8_t>& codes,
                 const std::vector<float>& scales, bool of_columns, const void* judged) {
  const Shape shape = make_shape(problem);
  const Strides& strides = is_query ? shape.q : shape.k;
  const i64 heads = is_query ? problem.num_heads_q : problem.num_heads_kv;
  const i64 blocks = ceil_div(is_query ? problem.seqlen_q : problem.seqlen_k, kScaleRows);
  i64 first = 0, compared = 0;
  for (i64 b = 0; b < problem.batch; ++b) {
    const i64 rows = is_query ? problem.queries(b) : problem.keys(b);
    for (i64 h = 0; h < heads; ++h) {
      for (i64 r = 0; r < rows; ++r) {
        for (i64 c = 0; c < problem.head_dim; ++c) {
          const auto at = static_cast<std::size_t>(strides.offset(b, h, first + r) + c);
          const i64 head = b * heads + h;
          const auto scale = static_cast<std::size_t>(of_columns ? head * problem.head_dim + c
                                                                 : head * blocks + r / kScaleRows);
          const float value = f32_from_e4m3(codes[at]) * scales.at(scale);
          ASSERT_EQ(bits(value), bits(static_cast<const float*>(judged)[at]))
              << problem.id() << ": batch " << b << " head " << h << " row " << r << " column "
              << c;
          ++compared;
        }
      }
    }
    if (problem.layout == Layout::packed) first += rows;
  }
  EXPECT_GT(compared, 0);
}

void expect_agreement(const Problem& problem) {
  ASSERT_EQ(invalid(problem), "");
  const Inputs inputs(problem);
  const QuantisedOnCpu made(problem, inputs.q, inputs.k, inputs.v, 2);
  Tensors tensors;
  tensors.q = inputs.q.data(), tensors.k = inputs.k.data(), tensors.v = inputs.v.data();
  const reference::JudgedInputs judged(problem, tensors);
  const bool of_columns = problem.quantisation.v == ScaleOf::channel;
  expect_same(problem, true, made.codes_q, made.scale_q, false, judged.tensors().q);
  expect_same(problem, false, made.codes_k, made.scale_k, false, judged.tensors().k);
  expect_same(problem, false, made.codes_v, made.scale_v, of_columns, judged.tensors().v);
}

Problem problem_of(std::int64_t head_dim, const Quantisation& how) {
  Problem problem;
  problem.dtype = Dtype::e4m3;
  problem.batch = 2;
  problem.num_heads_q = 4;
  problem.num_heads_kv = 2;
  problem.seqlen_q = 140;
  problem.seqlen_k = 260;
  problem.head_dim = head_dim;
  problem.seed = 0x123456789;
  problem.quantisation = how;
  return problem;
}

TEST(QuantiseAgreement, EveryKindOfScale) {
  for (const ScaleOf qk : {ScaleOf::tensor, ScaleOf::head, ScaleOf::block}) {
    for (const ScaleOf v : {ScaleOf::tensor, ScaleOf::head, ScaleOf::block, ScaleOf::channel}) {
      expect_agreement(problem_of(32, {qk, v, true}));
    }
  }
}

TEST(QuantiseAgreement, EveryHeadDim) {
  for (const std::int64_t head_dim : {16, 48, 80, 96, 128, 192, 256}) {
    expect_agreement(problem_of(head_dim, {}));
  }
}

TEST(QuantiseAgreement, PackedAndPadded) {
  Problem packed = problem_of(48, {ScaleOf::tensor, ScaleOf::block, true});
  packed.layout = Layout::packed;
  packed.lengths = {LengthsKind::packed, false, {140, 3}, {129, 260}};
  expect_agreement(packed);
  Problem padded = problem_of(48, {ScaleOf::block, ScaleOf::tensor, true});
  padded.layout = Layout::bhsd;
  padded.mask.padding.emplace();
  padded.lengths = {LengthsKind::padding, false, {}, {130, 7}};
  expect_agreement(padded);
}

}  // namespace
}  // namespace attnlab
