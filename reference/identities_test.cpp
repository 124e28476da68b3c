// The identities hold for correct gradients of every type, mask and length, and see a K/V head that
// is wrong as a whole, of which the oracle compared nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "reference/test_kernel_backward.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

// Returns references of all rows, and of the keys of the first K/V head alone.
References references_of_one_head(TestProblem& test) {
  Samples samples = choose_samples(test.problem, std::int64_t{1} << 50, 0);
  samples.columns.resize(1);
  return make_references(test.problem, test.tensors(), samples, 2);
}

struct Judged {
  std::string failing;  // "dk dv"
  std::string bound;    // of the last of these
  std::string message;
};

using Change = std::function<void(TestProblem&)>;

// Runs a correct forward and backward of N(0, 1) after `prepare`, lets `change` alter the outputs,
// and says how they are judged.
Judged judge_changed(
    Problem problem, std::uint64_t seed, const Change& change,
    const Change& prepare = [](auto&) {}) {
  problem.pass = Pass::bwd;
  TestProblem test(problem);
  test.fill_normal(seed);
  prepare(test);
  run_forward(test, Fault::none);
  run_backward(test, Fault::none);
  const References references = references_of_one_head(test);
  change(test);
  Judged judged;
  for (const Verdict& verdict : judge(test.problem, test.tensors(), references)) {
    if (verdict.pass) continue;
    judged.failing += judged.failing.empty() ? verdict.tensor : " " + verdict.tensor;
    judged.bound = verdict.failed_bound;
    judged.message = verdict.message;
  }
  return judged;
}

const Problem kProblem = {.dtype = Dtype::f16,
                          .batch = 2,
                          .num_heads_q = 6,
                          .num_heads_kv = 2,
                          .seqlen_q = 70,
                          .seqlen_k = 90,
                          .head_dim = 16,
                          .mask = parse_mask("causal")};

void set_keys(TestProblem& test, TestTensor& tensor, std::int64_t first, std::int64_t end,
              float value) {
  for (std::int64_t key = first; key < end; ++key) {
    for (std::int64_t d = 0; d < test.problem.head_dim; ++d) tensor.set(1, 1, key, d, value);
  }
}

TEST(Identities, HoldForCorrectGradients) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const char* mask : {"none", "causal", "window:7:3", "causal+blocks:bigbird:1:1:1:16x8"}) {
      for (const std::int64_t seqlen_k : {3, 40, 130}) {
        for (const double dropout : {0.0, 0.3}) {
          for (std::uint64_t seed = 0; seed < 1; ++seed) {
            Problem problem = kProblem;
            problem.dtype = dtype;
            problem.mask = parse_mask(mask);
            problem.seqlen_k = seqlen_k;
            problem.dropout = dropout;
            EXPECT_EQ(judge_changed(problem, seed, [](auto&) {}).message, "");
          }
        }
      }
    }
  }
}

TEST(Identities, HoldWhereLengthsDiffer) {
  Problem problem = kProblem;
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .queries = {12, 70}, .keys = {90, 5}};
  EXPECT_EQ(judge_changed(problem, 1, [](auto&) {}).message, "");
}

// Squares of these gradients are not fp32 numbers, the gradients are.
TEST(Identities, HoldWhereSquaresUnderflow) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Problem problem = kProblem;
    problem.dtype = dtype;
    const auto make_small = [](TestProblem& test) {
      test.fill_dout([](auto, auto, std::int64_t r, std::int64_t d) {
        return 0x1p-80f * static_cast<float>((r + 3 * d) % 7 - 3);
      });
    };
    EXPECT_EQ(judge_changed(
                  problem, 1, [](auto&) {}, make_small)
                  .message,
              "");
    const Judged dv = judge_changed(
        problem, 1, [](auto& test) { set_keys(test, test.dv, 0, 90, 0.0f); }, make_small);
    EXPECT_EQ(dv.bound, "identity");
  }
}

TEST(Identities, SeeAHeadThatNobodyComputed) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    Problem problem = kProblem;
    problem.dtype = dtype;
    const Judged dk =
        judge_changed(problem, 1, [](auto& test) { set_keys(test, test.dk, 0, 90, 0.0f); });
    EXPECT_EQ(dk.failing, "dk");
    EXPECT_EQ(dk.bound, "identity");
    EXPECT_EQ(dk.message.find("dk of batch 1 head 1: K^T dK and dQ^T Q differ by "), 0U)
        << dk.message;
    const Judged dv =
        judge_changed(problem, 1, [](auto& test) { set_keys(test, test.dv, 0, 90, 0.0f); });
    EXPECT_EQ(dv.failing, "dv");
    EXPECT_EQ(dv.bound, "identity");
  }
}

TEST(Identities, SeeKeysThatAreMissingOrWrong) {
  const auto changed = [](const Change& change) {
    return judge_changed(kProblem, 1, change).bound;
  };
  EXPECT_EQ(changed([](auto& test) { set_keys(test, test.dk, 8, 24, 0.0f); }), "identity");
  EXPECT_EQ(changed([](auto& test) { set_keys(test, test.dv, 8, 24, 1.0f); }), "identity");
  EXPECT_EQ(changed([](auto& test) {  // that of another head
              for (std::int64_t key = 0; key < 90; ++key) {
                for (std::int64_t d = 0; d < 16; ++d) {
                  test.dv.set(1, 1, key, d, test.dv.get(1, 0, key, d));
                }
              }
            }),
            "identity");
  EXPECT_EQ(changed([](auto& test) {  // not multiplied with softmax_scale
              for (std::int64_t key = 0; key < 90; ++key) {
                for (std::int64_t d = 0; d < 16; ++d) {
                  test.dk.set(1, 1, key, d, 4.0f * test.dk.get(1, 1, key, d));
                }
              }
            }),
            "identity");
}

}  // namespace
}  // namespace attnlab::reference
