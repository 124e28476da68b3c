// The rule for gradients passes a correct tiled kernel, from one key up, and fails wrong ones.
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reference/test_kernel_backward.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

std::map<std::string, Verdict> judge_all(TestProblem& test) {
  const Samples samples = choose_samples(test.problem, kNoLimit, 0);
  const References references = make_references(test.problem, test.tensors(), samples, 2);
  std::map<std::string, Verdict> verdicts;
  for (Verdict& verdict : judge(test.problem, test.tensors(), references)) {
    verdicts[verdict.tensor] = verdict;
  }
  return verdicts;
}

// Runs a correct forward, then a backward with the fault. Queries are normal times `factor`.
std::map<std::string, Verdict> judge_backward(Problem problem, std::uint64_t seed,
                                              Fault fault = Fault::none, float factor = 1.0f) {
  problem.pass = Pass::bwd;
  TestProblem test(problem);
  test.fill_normal(seed);
  const TestTensor q = test.q;
  test.fill_q([&](auto... at) { return factor * q.get(at...); });
  run_forward(test, Fault::none);
  run_backward(test, fault);
  return judge_all(test);
}

void expect_pass(const std::map<std::string, Verdict>& verdicts) {
  ASSERT_EQ(verdicts.size(), 3u);
  for (const auto& [tensor, verdict] : verdicts) {
    EXPECT_TRUE(verdict.pass) << verdict.message;
    EXPECT_EQ(verdict.coverage, 1.0);
  }
}

// Returns "dq dk": the tensors that fail.
std::string failing(const std::map<std::string, Verdict>& verdicts) {
  std::string names;
  for (const char* tensor : {"dq", "dk", "dv"}) {
    if (verdicts.at(tensor).pass) continue;
    names += names.empty() ? tensor : std::string(" ") + tensor;
  }
  return names;
}

TEST(ToleranceBackward, PassesACorrectKernelFromOneKeyUp) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t seqlen_k : {1, 2, 3, 17, 65, 300}) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        for (const double dropout : {0.0, 0.2}) {
          expect_pass(judge_backward({.dtype = dtype,
                                      .seqlen_q = 33,
                                      .seqlen_k = seqlen_k,
                                      .head_dim = 32,
                                      .dropout = dropout,
                                      .seed = seed},
                                     seed));
        }
      }
    }
  }
}

TEST(ToleranceBackward, PassesACorrectKernelUnderMasksAndSharedHeads) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const char* mask : {"none", "causal", "window:7:3", "causal+blocks:bigbird:1:1:1:16x8"}) {
      expect_pass(judge_backward({.dtype = dtype,
                                  .batch = 2,
                                  .num_heads_q = 4,
                                  .num_heads_kv = 2,
                                  .seqlen_q = 70,
                                  .seqlen_k = 70,
                                  .head_dim = 20,
                                  .mask = parse_mask(mask),
                                  .dropout = 0.3,
                                  .seed = 5,
                                  .layout = Layout::bhsd},
                                 3));
    }
  }
}

TEST(ToleranceBackward, PassesLargeLogitsAndConstantScores) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16}) {
    for (const float factor : {0.0f, 8.0f, 30.0f}) {
      for (const std::int64_t seqlen_k : {2, 3, 64}) {
        expect_pass(judge_backward({.dtype = dtype, .seqlen_q = 32, .seqlen_k = seqlen_k}, 7,
                                   Fault::none, factor));
      }
    }
  }
}

TEST(ToleranceBackward, PassesOneRowOfOneElement) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t seqlen_k : {1, 2, 3, 17, 64}) {
      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        expect_pass(judge_backward({.dtype = dtype, .seqlen_k = seqlen_k, .head_dim = 1}, seed));
      }
    }
  }
}

// With one key dS is 0, in the twin exactly; in a kernel it is what the rounding of O does to delta
// (and dropout's scale makes O round).
TEST(ToleranceBackward, PassesOneKeyWithDropout) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      expect_pass(judge_backward({.dtype = dtype, .seqlen_q = 200, .dropout = 0.2}, seed));
    }
  }
}

// Without dropout dQ of one key is 0 up to the order of sums, in some rows exactly, in others not:
// all of them count in the mean.
TEST(ToleranceBackward, PassesWhatTheOrderOfSumsLeavesOfOneKey) {
  TestProblem test({.pass = Pass::bwd, .seqlen_q = 17, .head_dim = 8});
  test.fill_normal(1);
  run_forward(test, Fault::none);
  run_backward(test, Fault::none);
  const Samples samples = choose_samples(test.problem, kNoLimit, 0);
  const References references = make_references(test.problem, test.tensors(), samples, 1);
  for (const float share : {0x1.8p-21f, 0x1.4p-20f}) {
    const float noise = share * references.rows.at(0).dq.sizes.maxCoeff();
    for (std::int64_t r = 0; r < 17; ++r) {
      for (std::int64_t d = 0; d < 8; ++d) test.dq.set(0, 0, r, d, noise);
    }
    const Verdict dq = judge(test.problem, test.tensors(), references).at(0);
    EXPECT_EQ(dq.pass, share < 0x1p-20f) << dq.message;
  }
}

// Wrong says what each fault must fail, in every precision.
struct Wrong {
  Fault fault;
  const char* failing;
};

class ToleranceBackwardFaults : public testing::TestWithParam<Dtype> {
 protected:
  void expect(const Problem& problem, const std::vector<Wrong>& faults) {
    for (const Wrong& wrong : faults) {
      Problem typed = problem;
      typed.dtype = GetParam();
      EXPECT_EQ(failing(judge_backward(typed, 3, wrong.fault)), wrong.failing)
          << "fault " << static_cast<int>(wrong.fault);
    }
  }
};

TEST_P(ToleranceBackwardFaults, OfPlainAttention) {
  expect({.seqlen_q = 100, .seqlen_k = 130}, {{Fault::none, ""},
                                              {Fault::dq_tile_missing, "dq"},
                                              {Fault::last_rows_missing, "dk dv"},
                                              {Fault::unscaled_gradients, "dq dk"},
                                              {Fault::delta_missing, "dq dk"},
                                              {Fault::last_tile_dropped, "dq dk dv"},
                                              {Fault::last_key_dropped, "dq dk dv"}});
}

TEST_P(ToleranceBackwardFaults, OfDropout) {
  expect(
      {.seqlen_q = 100, .seqlen_k = 130, .dropout = 0.2, .seed = 4},
      {{Fault::none, ""}, {Fault::dropout_unscaled, "dv"}, {Fault::dp_without_dropout, "dq dk"}});
}

TEST_P(ToleranceBackwardFaults, OfMasks) {
  expect({.seqlen_q = 100, .seqlen_k = 100, .mask = parse_mask("causal")},
         {{Fault::none, ""}, {Fault::mask_off_by_one, "dq dk dv"}});
}

TEST_P(ToleranceBackwardFaults, OfSharedHeads) {
  expect({.num_heads_q = 4, .num_heads_kv = 2, .seqlen_q = 50, .seqlen_k = 60},
         {{Fault::none, ""}, {Fault::one_head_missing, "dk dv"}, {Fault::kv_head_off, "dq dk dv"}});
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ToleranceBackwardFaults,
                         testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                         [](const auto& instance) { return to_string(instance.param); });

// Spoils correct gradients in one place. Row 0 sees nothing; nobody sees the last key.
class OneGradient : public testing::Test {
 protected:
  OneGradient()
      : test_({.pass = Pass::bwd,
               .num_heads_q = 2,
               .num_heads_kv = 2,
               .seqlen_q = 9,
               .seqlen_k = 8,
               .head_dim = 8,
               .mask = parse_mask("causal+padding"),
               .lengths = {.kind = LengthsKind::padding, .keys = {7}}}) {
    test_.fill_normal(4);
    run_forward(test_, Fault::none);
    run_backward(test_, Fault::none);
  }

  std::string message_of(const std::string& tensor) {
    const auto verdicts = judge_all(test_);
    for (const auto& [name, verdict] : verdicts) {
      EXPECT_TRUE(name == tensor || verdict.pass) << verdict.message;
    }
    return verdicts.at(tensor).message;
  }

  TestProblem test_;
};

TEST_F(OneGradient, NotFinite) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), kInfinite, -kInfinite}) {
    const struct {
      const char* name;
      TestTensor* tensor;
      const char* place;
    } tensors[] = {{"dq", &test_.dq, "dq: batch 0 head 1 row 5 column 3: got "},
                   {"dk", &test_.dk, "dk: batch 0 head 1 key 5 column 3: got "},
                   {"dv", &test_.dv, "dv: batch 0 head 1 key 5 column 3: got "}};
    for (const auto& spoilt : tensors) {
      EXPECT_EQ(message_of(spoilt.name), "");
      const float before = spoilt.tensor->get(0, 1, 5, 3);
      spoilt.tensor->set(0, 1, 5, 3, value);
      const std::string message = message_of(spoilt.name);
      EXPECT_EQ(message.find(spoilt.place), 0u) << message;
      EXPECT_NE(message.find(test_.problem.id()), std::string::npos) << message;
      spoilt.tensor->set(0, 1, 5, 3, before);
    }
  }
}

TEST_F(OneGradient, ARowThatSeesNothingIsExactlyZero) {
  test_.dq.set(0, 0, 0, 2, 1e-30f);
  EXPECT_EQ(message_of("dq").find("dq of a row that sees nothing: batch 0 head 0 row 0"), 0u);
  test_.dq.set(0, 0, 0, 2, -0.0f);
  EXPECT_EQ(message_of("dq"), "");
}

TEST_F(OneGradient, AKeyThatNobodySeesIsExactlyZero) {
  test_.dk.set(0, 1, 7, 2, 1e-30f);
  EXPECT_EQ(message_of("dk").find("dk of a key that nobody sees: batch 0 head 1 key 7"), 0u);
  test_.dk.set(0, 1, 7, 2, 0.0f);
  test_.dv.set(0, 0, 7, 1, -1e-30f);
  EXPECT_EQ(message_of("dv").find("dv of a key that nobody sees: batch 0 head 0 key 7"), 0u);
}

TEST(ToleranceBackward, TensorsByPass) {
  const auto tensors_of = [](Pass pass) {
    TestProblem test({.pass = pass, .seqlen_q = 3, .seqlen_k = 4, .head_dim = 4});
    test.fill_normal(1);
    run_forward(test, Fault::none);
    run_backward(test, Fault::none);
    const Samples samples = choose_samples(test.problem, kNoLimit, 0);
    const References references = make_references(test.problem, test.tensors(), samples, 1);
    std::string names;
    for (const Verdict& verdict : judge(test.problem, test.tensors(), references)) {
      EXPECT_TRUE(verdict.pass) << verdict.message;
      names += verdict.tensor + " ";
    }
    return names;
  };
  EXPECT_EQ(tensors_of(Pass::fwd), "o lse ");
  EXPECT_EQ(tensors_of(Pass::bwd), "dq dk dv ");
  EXPECT_EQ(tensors_of(Pass::fwdbwd), "o lse dq dk dv ");
}

TEST(ToleranceBackward, CoverageIsTheShareOfRowsAndOfKeys) {
  TestProblem test({.pass = Pass::bwd,
                    .num_heads_q = 2,
                    .num_heads_kv = 1,
                    .seqlen_q = 10,
                    .seqlen_k = 8,
                    .head_dim = 4});
  test.fill_normal(6);
  run_forward(test, Fault::none);
  run_backward(test, Fault::none);
  const Samples samples = {.rows = {{.head = 1, .rows = {0, 4, 9}}}, .columns = {{.keys = {0, 7}}}};
  const References references = make_references(test.problem, test.tensors(), samples, 1);
  const auto verdicts = judge(test.problem, test.tensors(), references);
  EXPECT_EQ(verdicts.at(0).coverage, 0.15);
  EXPECT_EQ(verdicts.at(1).coverage, 0.25);
  EXPECT_EQ(verdicts.at(2).coverage, 0.25);
  for (const Verdict& verdict : verdicts) EXPECT_TRUE(verdict.pass) << verdict.message;
  for (const Verdict& verdict : judge(test.problem, test.tensors(), References{})) {
    EXPECT_FALSE(verdict.pass);
    EXPECT_EQ(verdict.coverage, 0.0);
  }
}

}  // namespace
}  // namespace attnlab::reference
