// Runs every CUDA kernel on a few random problems of each pass and type, judged by the oracle. All
// else that it is held to is what attnlab verify does.
#include <iostream>
#include <map>
#include <memory>
#include <ostream>

#include "harness/verify/draw.h"
#include "harness/verify/trial.h"
#include "kernels/shared/base.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kSeed = 17;  // masks of every kind, dropout, packed batches
constexpr int kProblems = 8;
constexpr std::int64_t kLongest = 257;

const std::map<Pass, int> kEveryProblem = {
    {Pass::fwd, kProblems}, {Pass::bwd, kProblems}, {Pass::fwdbwd, kProblems}};

class GpuVerify : public GpuTest {
 protected:
  // Judges what the kernel supports, with its default config; returns how many launches that were,
  // of each pass. Head dims are rounded up to a multiple that the kernel takes.
  std::map<Pass, int> judge_problems(const Implementation& kernel, Dtype dtype,
                                     std::int64_t head_dim_multiple = 1) {
    std::map<Pass, int> judged;
    for (int index = 0; index < kProblems; ++index) {
      verify::RandomProblem drawn = verify::draw_problem(kSeed, index, kLongest);
      drawn.problem.dtype = dtype;
      drawn.problem.head_dim = round_up(drawn.problem.head_dim, head_dim_multiple);
      verify::Subject subject(drawn.problem, drawn.kind, drawn.seed, gpu());
      const auto setup_of = [&](Pass pass) {
        return verify::Setup{&kernel, default_config(kernel), gpu(), pass};
      };
      if (verify::unsupported(setup_of(Pass::fwdbwd), drawn.problem).empty()) {
        subject.wants_backward();
      }
      for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
        if (!verify::unsupported(setup_of(pass), drawn.problem).empty()) continue;
        judge(subject, setup_of(pass));
        ++judged[pass];
      }
    }
    return judged;
  }

 private:
  static void judge(verify::Subject& subject, const verify::Setup& setup) {
    try {
      verify::Trial trial(subject, setup);
      trial.launch();
      for (const reference::Verdict& verdict : trial.judge()) EXPECT_TRUE(verdict.pass);
    } catch (const verify::Failure& failure) {
      ADD_FAILURE() << failure.check << ": " << failure.message;
    }
  }
};

// Judged is a kernel's passes in one type, each a test of its own, since all are compiled.
struct Judged {
  const char* kernel;
  Dtype dtype;
  std::int64_t head_dim_multiple;  // that the kernel takes
  bool has_backward;
};

void PrintTo(const Judged& judged, std::ostream* out) {
  *out << judged.kernel << " " << to_string(judged.dtype);
}

class GpuVerifyKernel : public GpuVerify, public testing::WithParamInterface<Judged> {};

TEST_P(GpuVerifyKernel, OnEveryPass) {
  const auto [name, dtype, head_dim_multiple, has_backward] = GetParam();
  const Implementation& kernel = *builtin_registry().find(name, Backend::cuda);
  const std::map<Pass, int> expected =
      has_backward ? kEveryProblem : std::map<Pass, int>{{Pass::fwd, kProblems}};
  EXPECT_EQ(judge_problems(kernel, dtype, head_dim_multiple), expected);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, GpuVerifyKernel,
    testing::Values(Judged{"naive", Dtype::f32, 1, true}, Judged{"naive", Dtype::f16, 1, true},
                    Judged{"naive", Dtype::bf16, 1, true}, Judged{"minimal", Dtype::f32, 1, false},
                    Judged{"v1", Dtype::f16, 8, true}, Judged{"v1", Dtype::bf16, 8, true},
                    Judged{"v2", Dtype::f16, 8, true}, Judged{"v2", Dtype::bf16, 8, true},
                    Judged{"v3", Dtype::f16, 8, true}, Judged{"v3", Dtype::bf16, 8, true}),
    [](const auto& judged) {
      return std::string(judged.param.kernel) + "_" + to_string(judged.param.dtype);
    });

// Scores stay in fp32, and P is rounded before it is divided by its sum: that is more exact than a
// materialized computation, also where a few elements are ten times as large as the others.
TEST_F(GpuVerify, V3HasSmallerErrorsThanTheTwin) {
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const InputKind kind : {InputKind::normal, InputKind::outlier}) {
      for (const std::int64_t head_dim : {64, 128, 256}) {
        const Problem problem = {.dtype = dtype,
                                 .num_heads_q = 2,
                                 .num_heads_kv = 2,
                                 .seqlen_q = 512,
                                 .seqlen_k = 512,
                                 .head_dim = head_dim};
        SCOPED_TRACE(problem.id() + " " + to_string(kind));
        verify::Subject subject(problem, kind, kSeed, gpu());
        const verify::Setup setup = {&v3, default_config(v3), gpu(), Pass::fwd};
        verify::Trial trial(subject, setup);
        trial.launch();
        const reference::Verdict o = trial.judge().front();
        EXPECT_LE(o.rms_to_twin.value(), 1.0);
        std::cout << subject.problem().id() << " " << to_string(kind) << ": rms "
                  << o.rms_to_twin.value() << " of the twin's\n";
      }
    }
  }
}

}  // namespace
}  // namespace attnlab
