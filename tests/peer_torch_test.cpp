// Runs scripts/peers/peer.py with real PyTorch, on the CPU: our oracle judges what it hands back,
// as in a run. It is skipped where there is no PyTorch ($ATTNLAB_PYTHON names one that has it).
#include <gtest/gtest.h>

#include "harness/plan/peer_names.h"
#include "harness/run/peer.h"
#include "harness/tensors/arena.h"
#include "harness/tensors/inputs.h"
#include "harness/testing/test_support.h"
#include "reference/oracle.h"
#include "reference/tolerance.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

const Device kCpu = {.threads = 2};

PeerOptions real_peer() { return {.script = in_tree("scripts/peers/peer.py")}; }

// Returns why the tests cannot run, "" if they can.
std::string no_torch() {
  static const std::string reason = []() -> std::string {
    try {
      PeerProcess(real_peer()).hello();
      return "";
    } catch (const PeerError& error) {
      return error.what();
    }
  }();
  return reason;
}

// HostInputs has a problem's inputs on the host.
class HostInputs {
 public:
  explicit HostInputs(const Problem& problem) : inputs_(arena_, problem, InputKind::normal, 1, 1) {}
  const Tensors& tensors() const { return inputs_.host(); }

 private:
  Arena arena_;
  Inputs inputs_;
};

Problem problem_of(Pass pass, Dtype dtype, Layout layout, const char* mask,
                   std::int64_t num_heads_kv) {
  Problem problem = {.pass = pass,
                     .dtype = dtype,
                     .batch = 2,
                     .num_heads_q = 4,
                     .num_heads_kv = num_heads_kv,
                     .seqlen_q = 48,
                     .seqlen_k = 48,
                     .head_dim = 24,
                     .mask = parse_mask(mask),
                     .softmax_scale = 0.3,
                     .layout = layout};
  if (problem.mask.padding) problem.lengths = {.kind = LengthsKind::padding, .keys = {48, 41}};
  if (problem.mask == parse_mask("causal") && num_heads_kv == 4) problem.seqlen_q = 31;
  return problem;
}

std::vector<Problem> problems() {
  std::vector<Problem> all;
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
      for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
        for (const char* mask : {"none", "causal", "causal+padding", "window:9:3+padding",
                                 "causal+blocks:butterfly:8x8"}) {
          all.push_back(problem_of(pass, dtype, layout, mask, layout == Layout::bshd ? 2 : 4));
        }
      }
    }
  }
  return all;
}

std::vector<reference::Verdict> judge(const Problem& problem, const HostInputs& inputs,
                                      const PeerOutputs& outputs) {
  constexpr std::int64_t kEverything = std::int64_t{1} << 40;
  const auto samples = reference::choose_samples(problem, kEverything, 1);
  const auto references = reference::make_references(problem, inputs.tensors(), samples, 1);
  return reference::judge(problem, outputs.attach(inputs.tensors()), references);
}

// Expects good outputs; `lse`: whether it must be among them.
void expect_good(const Problem& problem, const HostInputs& inputs, const PeerOutputs& outputs,
                 bool lse = false) {
  const auto verdicts = judge(problem, inputs, outputs);
  const std::size_t with_o = lse ? 2 : 1;
  const std::size_t tensors = problem.pass == Pass::fwd   ? with_o
                              : problem.pass == Pass::bwd ? 3
                                                          : 3 + with_o;
  EXPECT_EQ(verdicts.size(), tensors);
  for (const reference::Verdict& verdict : verdicts) {
    EXPECT_TRUE(verdict.pass) << verdict.tensor << ": " << verdict.message;
    EXPECT_EQ(verdict.coverage, 1.0);
  }
}

class TorchPeerOnCpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!no_torch().empty()) GTEST_SKIP() << no_torch();
  }
};

TEST_P(TorchPeerOnCpu, AgreesWithTheOracle) {
  PeerProcess process(real_peer());
  LibraryPeer peer(process, GetParam(), kCpu);
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(problem.id());
    ASSERT_EQ(unsupported_by_peer(GetParam(), problem, kCpu), "");
    const HostInputs host(problem);
    PeerInputs inputs(problem, host.tensors());
    expect_good(problem, host, peer.prepare(inputs, {.input_sets = 2}));
    EXPECT_FALSE(peer.kernels().empty());
    EXPECT_GT(peer.seconds_of(3), 0.0);
    expect_good(problem, host, peer.outputs());
    peer.release();
  }
  EXPECT_EQ(process.generation(), 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, TorchPeerOnCpu,
                         testing::Values("torch:eager", "torch:flash", "torch:math"),
                         [](const auto& backend) { return std::string(backend.param).substr(6); });

// It is the example of docs/peers.md.
TEST_F(TorchPeerOnCpu, AFunctionAgreesWithTheOracle) {
  const std::string library = "py:" + in_tree("scripts/peers/example.py");
  PeerOptions options = real_peer();
  options.library = library;
  PeerProcess process(options);
  LibraryPeer peer(process, library + ":attend", kCpu);
  for (const Problem& problem : problems()) {
    SCOPED_TRACE(problem.id());
    const HostInputs host(problem);
    PeerInputs inputs(problem, host.tensors());
    if (problem.mask.padding || problem.mask.window || problem.mask.blocks) {
      EXPECT_THROW(peer.prepare(inputs), PeerError);
      continue;
    }
    expect_good(problem, host, peer.prepare(inputs, {.input_sets = 2}), true);
    EXPECT_FALSE(peer.kernels().empty());
    EXPECT_GT(peer.seconds_of(3), 0.0);
    expect_good(problem, host, peer.outputs(), true);
  }
  EXPECT_EQ(process.generation(), 1);
}

std::vector<Problem> problems_of_e4m3() {
  std::vector<Problem> all;
  for (const ScaleOf qk : {ScaleOf::tensor, ScaleOf::head}) {
    for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
      for (const char* mask : {"none", "causal"}) {
        all.push_back(
            problem_of(Pass::fwd, Dtype::e4m3, layout, mask, qk == ScaleOf::tensor ? 2 : 4));
        all.back().quantisation = {.qk = qk, .v = ScaleOf::head};
      }
    }
  }
  return all;
}

TEST_F(TorchPeerOnCpu, AFunctionOfE4m3AgreesWithTheOracle) {
  PeerOptions options = real_peer();
  options.library = "py:" + in_tree("scripts/peers/example.py");
  PeerProcess process(options);
  LibraryPeer peer(process, options.library + ":attend", kCpu);
  for (const Problem& problem : problems_of_e4m3()) {
    SCOPED_TRACE(problem.id());
    const HostInputs host(problem);
    PeerInputs inputs(problem, host.tensors());
    expect_good(problem, host, peer.prepare(inputs, {.input_sets = 2}), true);
    EXPECT_GT(peer.seconds_of(3), 0.0);
    expect_good(problem, host, peer.outputs(), true);
  }
}

TEST_F(TorchPeerOnCpu, AFunctionOfE4m3ThatTakesAnothersFactorFails) {
  const TestFile file(".py", "import sys\nsys.path.insert(0, '" + in_tree("scripts/peers") + R"(')
from example import attend


def f(q, k, v, *, causal, softmax_scale, q_descale, k_descale, v_descale):
    return attend(q, k, v, causal=causal, softmax_scale=softmax_scale, q_descale=q_descale,
                  k_descale=k_descale, v_descale=v_descale.flip(1))
)");
  PeerOptions options = real_peer();
  options.library = "py:" + file.path().string();
  PeerProcess process(options);
  LibraryPeer peer(process, options.library + ":f", kCpu);
  for (const Problem& problem : problems_of_e4m3()) {
    SCOPED_TRACE(problem.id());
    const HostInputs host(problem);
    PeerInputs inputs(problem, host.tensors());
    const auto verdicts = judge(problem, host, peer.prepare(inputs));
    EXPECT_FALSE(verdicts.at(0).pass);
  }
}

// PyTorch's dropout is its own: what is verified has none, what is timed has it.
TEST_F(TorchPeerOnCpu, DropoutIsTimedAndNotVerified) {
  Problem problem = problem_of(Pass::fwdbwd, Dtype::f32, Layout::bshd, "none", 2);
  const HostInputs host(problem);
  problem.dropout = 0.5;
  PeerInputs inputs(problem, host.tensors());
  problem.dropout = 0.0;
  PeerProcess process(real_peer());
  LibraryPeer peer(process, "torch:eager", kCpu);
  expect_good(problem, host, peer.prepare(inputs));
  const auto ran = [&](const char* kernel) {
    return std::ranges::find(peer.kernels(), kernel, &ExecutedKernel::symbol) !=
           peer.kernels().end();
  };
  EXPECT_TRUE(ran("aten::bernoulli_")) << "the timed launch has no dropout";
  EXPECT_GT(peer.seconds_of(2), 0.0);
  expect_good(problem, host, peer.outputs());
}

TEST_F(TorchPeerOnCpu, SaysWhatPyTorchCannotDo) {
  const Problem problem = problem_of(Pass::fwd, Dtype::f32, Layout::bshd, "none", 4);
  const HostInputs host(problem);
  PeerInputs inputs(problem, host.tensors());
  PeerProcess process(real_peer());
  LibraryPeer cudnn(process, "torch:cudnn", kCpu);
  try {
    cudnn.prepare(inputs);
    FAIL() << "it ran";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.kind(), PeerError::Kind::unsupported) << error.what();
  }
  // The next one is not harmed.
  LibraryPeer math(process, "torch:math", kCpu);
  expect_good(problem, host, math.prepare(inputs));
  EXPECT_EQ(math.version().rfind("torch ", 0), 0u) << math.version();
}

}  // namespace
}  // namespace attnlab
