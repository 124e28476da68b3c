// Tests the peer's protocol on tests/data/fake_peer.py, which needs no PyTorch and can misbehave.
#include "harness/run/peer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "harness/plan/peer_names.h"
#include "harness/tensors/arena.h"
#include "harness/testing/fake_file_memory.h"
#include "harness/testing/fake_runtime.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

using Kind = PeerError::Kind;

const Device kCpu = {.threads = 2};
const Device kCuda = {.backend = Backend::cuda, .ordinal = 1};

// Returns what `action` throws, as "KIND: message"; "" if it throws no PeerError.
template <class Action>
std::string peer_error(const Action& action) try {
  action();
  return "";
} catch (const PeerError& error) {
  const char* const kinds[] = {"unsupported", "out_of_memory", "error", "no_access", "lost"};
  return std::string(kinds[static_cast<int>(error.kind())]) + ": " + error.what();
}

class Peer : public testing::Test {
 protected:
  Peer() {
    for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < k_.size(); ++i) k_[i] = -static_cast<float>(i);
    problem_ = {.pass = Pass::fwdbwd,
                .batch = 2,
                .num_heads_q = 2,
                .num_heads_kv = 1,
                .seqlen_q = 3,
                .seqlen_k = 5,
                .head_dim = 4};
  }
  void TearDown() override {
    unsetenv("FAKE_PEER");
    unsetenv("FAKE_PEER_LSE");
  }

  static void misbehave(const char* how) { setenv("FAKE_PEER", how, 1); }

  Tensors tensors() const {
    Tensors result = {.q = q_.data(), .k = k_.data(), .v = k_.data()};
    if (problem_.pass != Pass::fwd) result.dout = q_.data();
    return result;
  }

  static PeerOptions options() {
    return {.python = "python3",
            .script = in_tree("tests/data/fake_peer.py"),
            .start_timeout_s = 30.0,
            .call_timeout_s = 30.0};
  }

  std::vector<float> q_ = std::vector<float>(2 * 2 * 3 * 4), k_ = std::vector<float>(2 * 5 * 4);
  Problem problem_;
};

bool same(const void* data, const std::vector<float>& want) {
  return data != nullptr && std::memcmp(data, want.data(), want.size() * sizeof(float)) == 0;
}

TEST_F(Peer, PreparesTimesAndReturnsOutputs) {
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors());
  LibraryPeer peer(process, "torch:flash", kCuda);

  const PeerOutputs first = peer.prepare(inputs);
  EXPECT_EQ(peer.version(), "torch 9.9.9+fake");
  EXPECT_EQ(peer.plan(), "tiles of 9");
  const Tensors outputs = first.attach(tensors());
  EXPECT_TRUE(same(outputs.o, q_));
  EXPECT_TRUE(same(outputs.dq, q_));
  EXPECT_TRUE(same(outputs.dk, k_));
  EXPECT_TRUE(same(outputs.dv, k_));
  EXPECT_EQ(outputs.lse, nullptr);
  EXPECT_EQ(outputs.q, q_.data());
  ASSERT_EQ(peer.kernels().size(), 2u);
  const ExecutedKernel& kernel = peer.kernels()[0];
  EXPECT_EQ(kernel.symbol, "flash_kernel");
  EXPECT_EQ(kernel.grid[0], 4u);
  EXPECT_EQ(kernel.grid[1], 2u);
  EXPECT_EQ(kernel.block[0], 128u);
  EXPECT_EQ(kernel.registers, 40);
  EXPECT_EQ(kernel.shared_bytes, 2048u);
  EXPECT_EQ(kernel.static_shared_bytes, std::nullopt);
  EXPECT_EQ(kernel.launches, 2);
  const ExecutedKernel& without_a_shape = peer.kernels()[1];
  EXPECT_EQ(without_a_shape.symbol, "cuda:1");
  EXPECT_EQ(without_a_shape.grid[0], 0u);
  EXPECT_EQ(without_a_shape.shared_bytes, std::nullopt);
  EXPECT_EQ(peer.peak_bytes(), 4096u);

  peer.warm_up(4096);
  EXPECT_TRUE(peer.launch_cost_was_hidden());
  EXPECT_DOUBLE_EQ(peer.seconds_of(7), 0.007);
  EXPECT_FALSE(peer.launch_cost_was_hidden());
  EXPECT_EQ(peer.launches_ahead(), 0);
  EXPECT_DOUBLE_EQ(peer.seconds_of(7, LibraryPeer::Behind::launches), 0.007);
  EXPECT_EQ(peer.launches_ahead(), 3);
  EXPECT_DOUBLE_EQ(peer.load(7), 0.014) << "what the host needs is in it";
  EXPECT_TRUE(same(peer.outputs().attach({}).dv, k_));

  peer.release();
  EXPECT_PRED2(contains, peer_error([&] { peer.seconds_of(1); }), "not prepared");
}

// Puts inputs and outputs in memory of a device that can be shared.
class PeerWithMemory : public Peer {
 protected:
  PeerWithMemory() {
    const auto send = [&](const std::vector<float>& values) {
      const std::uint64_t bytes = values.size() * sizeof(float);
      buffers_.push_back(arena_.allocate("input", bytes));  // lies at an offset, behind guards
      device_.write(buffers_.back().get(), values.data(), bytes);
      return buffers_.back().get();
    };
    there_ = {.q = send(q_), .k = send(k_), .v = send(k_), .dout = send(q_)};
  }

  bool has(const void* data, const std::vector<float>& want) {
    std::vector<float> got(want.size());
    device_.read(got.data(), data, got.size() * sizeof(float));
    return got == want;
  }

  TestFolder folder_;
  fake::FileMemory device_{folder_.path()};
  Arena arena_{device_};
  std::vector<Arena::Buffer> buffers_;
  Tensors there_;
};

TEST_F(PeerWithMemory, TensorsAreCopiedFromAndToMemoryOfTheDevice) {
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors(), there_, device_);
  ASSERT_EQ(inputs.shared_runtime(), &device_);
  EXPECT_TRUE(read_safetensors(inputs.file()).tensors.empty());
  LibraryPeer peer(process, "torch:flash", kCuda);
  device_.reads = 0;
  for (const PeerOutputs& outputs : {peer.prepare(inputs), peer.outputs()}) {
    EXPECT_EQ(&outputs.runtime(), &device_);
    const Tensors made = outputs.attach({});
    EXPECT_TRUE(has(made.o, q_));
    EXPECT_TRUE(has(made.dq, q_));
    EXPECT_TRUE(has(made.dk, k_));
    EXPECT_TRUE(has(made.dv, k_));
  }
  EXPECT_EQ(device_.reads, 8) << "the test's own";
}

// A forward that is timed makes no lse where a library can leave it out; the first one has it.
TEST_F(Peer, LseIsThereWhereThePeerGivesIt) {
  setenv("FAKE_PEER_LSE", "prepare", 1);
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors());
  LibraryPeer peer(process, "fa4", kCuda);
  const std::vector<float> lse(2 * 2 * 3, 1.5F);
  EXPECT_TRUE(same(peer.prepare(inputs).attach({}).lse, lse));
  const PeerOutputs timed = peer.outputs();
  EXPECT_EQ(timed.attach({}).lse, nullptr);
  EXPECT_TRUE(same(timed.attach({}).o, q_));
}

TEST_F(PeerWithMemory, LseInMemoryOfTheDevice) {
  setenv("FAKE_PEER_LSE", "prepare", 1);
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors(), there_, device_);
  LibraryPeer peer(process, "fa4", kCuda);
  EXPECT_TRUE(has(peer.prepare(inputs).attach({}).lse, std::vector<float>(2 * 2 * 3, 1.5F)));
  EXPECT_EQ(peer.outputs().attach({}).lse, nullptr);
  problem_.pass = Pass::bwd;
  PeerInputs of_backward(problem_, tensors(), there_, device_);
  EXPECT_EQ(peer.prepare(of_backward).attach({}).lse, nullptr);
}

// They are small, and lie in the file whether the other tensors do or not.
TEST_F(PeerWithMemory, WherePackedEntriesBeginIsInTheFile) {
  problem_.layout = Layout::packed;
  problem_.lengths = {.kind = LengthsKind::packed, .queries = {3, 3}, .keys = {5, 5}};
  const std::int32_t starts_q[] = {0, 3, 6}, starts_k[] = {0, 5, 10};
  Tensors host = tensors();
  host.cu_seqlens_q = starts_q;
  host.cu_seqlens_k = starts_k;
  const auto names = [](const PeerInputs& inputs) {
    Texts found;
    for (const auto& [name, view] : read_safetensors(inputs.file()).tensors) found.push_back(name);
    return found;
  };
  const PeerInputs shared(problem_, host, there_, device_);
  ASSERT_EQ(shared.shared_runtime(), &device_);
  EXPECT_EQ(names(shared), (Texts{"cu_seqlens_k", "cu_seqlens_q"}));
  EXPECT_EQ(names(PeerInputs(problem_, host)),
            (Texts{"cu_seqlens_k", "cu_seqlens_q", "do", "k", "q", "v"}));
}

TEST_F(PeerWithMemory, WhatThePeerDoesNotWriteIsNan) {
  misbehave("outputs:lazy");
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors(), there_, device_);
  LibraryPeer peer(process, "torch:flash", kCuda);
  static_cast<void>(peer.prepare(inputs));
  const PeerOutputs outputs = peer.outputs();
  std::vector<float> o(q_.size());
  device_.read(o.data(), outputs.attach({}).o, o.size() * sizeof(float));
  EXPECT_TRUE(std::ranges::all_of(o, [](float value) { return std::isnan(value); }));
}

TEST_F(PeerWithMemory, WhereItCannotBeOpenedFilesServe) {
  misbehave("prepare:no_access");
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors(), there_, device_);
  LibraryPeer peer(process, "torch:flash", kCuda);
  const PeerOutputs outputs = peer.prepare(inputs);
  EXPECT_EQ(inputs.shared_runtime(), nullptr);
  EXPECT_TRUE(outputs.runtime().is_host());
  EXPECT_TRUE(same(outputs.attach({}).dk, k_));
  EXPECT_TRUE(same(peer.outputs().attach({}).o, q_));
}

TEST_F(PeerWithMemory, OutputsThatCannotBeSharedComeInAFile) {
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors(), there_, device_);
  ASSERT_EQ(inputs.shared_runtime(), &device_);
  device_.shares = 2;  // the third of the five outputs is refused
  LibraryPeer peer(process, "torch:flash", kCuda);
  const PeerOutputs outputs = peer.prepare(inputs);
  EXPECT_TRUE(outputs.runtime().is_host());
  EXPECT_TRUE(same(outputs.attach({}).dk, k_));
  EXPECT_EQ(&peer.outputs().runtime(), &device_) << "all are shared again";
}

TEST_F(PeerWithMemory, MemoryThatCannotBeSharedIsNotOffered) {
  fake::SeparateMemory apart;
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors(), there_, apart);
  EXPECT_EQ(inputs.shared_runtime(), nullptr);
  LibraryPeer peer(process, "torch:flash", kCuda);
  EXPECT_TRUE(same(peer.prepare(inputs).attach({}).dv, k_));
}

TEST_F(Peer, SeveralShareOneProcess) {
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors());
  LibraryPeer eager(process, "torch:eager", kCpu);
  LibraryPeer math(process, "torch:math", kCpu);
  eager.prepare(inputs);
  math.prepare(inputs);
  EXPECT_EQ(eager.kernels()[0].symbol, "eager_kernel");
  EXPECT_EQ(math.kernels()[0].symbol, "math_kernel");
  eager.release();
  EXPECT_DOUBLE_EQ(math.seconds_of(2), 0.002);
  EXPECT_EQ(process.generation(), 1);
}

TEST_F(Peer, AnotherIdeaOfAKernelIsAnError) {
  misbehave("prepare:flat");
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors());
  LibraryPeer peer(process, "torch:flash", kCuda);
  EXPECT_PRED2(contains, peer_error([&] { peer.prepare(inputs); }), "no proper 'grid'");
}

TEST_F(Peer, FilesAreGoneWithTheInputs) {
  std::filesystem::path folder;
  {
    PeerProcess process(options());
    PeerInputs inputs(problem_, tensors());
    LibraryPeer peer(process, "torch:eager", kCpu);
    peer.prepare(inputs);
    folder = inputs.file().parent_path();
    EXPECT_TRUE(std::filesystem::exists(inputs.file()));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(Peer, WhatItCannotDoIsToldApart) {
  for (const char* kind : {"unsupported", "out_of_memory", "error"}) {
    misbehave((std::string("prepare:") + kind).c_str());
    PeerProcess process(options());
    PeerInputs inputs(problem_, tensors());
    LibraryPeer peer(process, "torch:eager", kCpu);
    const std::string said = peer_error([&] { peer.prepare(inputs); });
    EXPECT_PRED2(starts_with, said, std::string(kind) + ": ");
    EXPECT_PRED2(contains, said, std::string("it is an ") + kind);
    EXPECT_EQ(process.generation(), 1);
    EXPECT_TRUE(process.runs(1)) << "it goes on";
  }
}

struct Loss {
  const char* misdeed;
  Texts said;
};

// Whatever happens in the middle of a call, the next one starts a new process.
TEST_F(Peer, ALostOneIsExplainedAndStartedAnew) {
  const std::vector<Loss> losses = {
      {"time:die", {"died (exit status 3)", "'time'", "the ground shakes"}},
      {"time:die_slowly", {"died (exit status 4)", "farewell"}},
      {"time:hang", {"did not answer within 2 s"}},
      {"time:garbage", {"'a library greets you'"}},
      {"time:stale", {"which is none"}},
      {"time:fatal", {"gave up", "the device is lost"}},
  };
  for (const Loss& loss : losses) {
    SCOPED_TRACE(loss.misdeed);
    misbehave(loss.misdeed);
    PeerOptions impatient = options();
    if (std::string_view(loss.misdeed).ends_with("hang")) impatient.call_timeout_s = 2.0;
    PeerProcess process(impatient);
    PeerInputs inputs(problem_, tensors());
    LibraryPeer peer(process, "torch:eager", kCpu);
    LibraryPeer other(process, "torch:math", kCpu);
    process.hello();
    peer.prepare(inputs);
    other.prepare(inputs);
    const std::string said = peer_error([&] { peer.seconds_of(1); });
    EXPECT_PRED2(starts_with, said, "lost: ");
    for (const std::string& part : loss.said) EXPECT_PRED2(contains, said, part);

    misbehave("");
    EXPECT_PRED2(starts_with, peer_error([&] { other.seconds_of(1); }), "lost: torch:math is not");
    other.release();
    EXPECT_EQ(process.generation(), 1) << "nobody needs another one yet";
    peer.prepare(inputs);
    EXPECT_EQ(process.generation(), 2);
    EXPECT_DOUBLE_EQ(peer.seconds_of(1), 0.001);
    EXPECT_PRED2(starts_with, peer_error([&] { other.seconds_of(1); }), "lost: torch:math is not");
  }
}

TEST_F(Peer, ItsChatterOnStandardErrorStopsNobody) {
  misbehave("time:chatter");
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors());
  LibraryPeer peer(process, "torch:eager", kCpu);
  peer.prepare(inputs);
  for (int i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(peer.seconds_of(1), 0.001);
}

TEST_F(Peer, OutputsOfAnotherShapeAreRefused) {
  misbehave("prepare:other_shape");
  PeerProcess process(options());
  PeerInputs inputs(problem_, tensors());
  LibraryPeer peer(process, "torch:eager", kCpu);
  EXPECT_PRED2(contains, peer_error([&] { peer.prepare(inputs); }),
               "error: the peer's outputs have no o of F32 [2, 3, 2, 4]");
}

// Expects a refusal that starts nothing again: else each of a thousand points would try.
void expect_unusable(const PeerOptions& how, const Texts& parts) {
  PeerProcess process(how);
  const std::string said = peer_error([&] { process.hello(); });
  EXPECT_PRED2(starts_with, said, "unsupported: ");
  for (const std::string& part : parts) EXPECT_PRED2(contains, said, part);
  const int generation = process.generation();
  EXPECT_EQ(peer_error([&] { process.call({{"call", "time"}}); }), said);
  EXPECT_EQ(process.generation(), generation);
}

TEST_F(Peer, OneThatCannotBeStartedSaysTheRemedy) {
  PeerOptions how = options();
  how.python = "no-such-python";
  expect_unusable(how, {"cannot start no-such-python", "pip install torch", "ATTNLAB_PYTHON"});
  how = options();
  how.script = "nowhere/peer.py";
  expect_unusable(how, {"nowhere/peer.py is not there", "ATTNLAB_PEER_DIR"});
  misbehave("hello:die");
  expect_unusable(options(), {"died (exit status 3)", "the ground shakes"});
  misbehave("hello:old");
  expect_unusable(options(), {"another protocol", "ATTNLAB_PEER_DIR"});
  misbehave("hello:hang");
  how = options();
  how.start_timeout_s = 0.3;
  expect_unusable(how, {"did not answer within 0.3 s"});
}

// This Python certainly has no PyTorch: it sees none of its packages.
TEST_F(Peer, TheScriptWithoutPyTorchSaysTheRemedy) {
  const TestFile python("", "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
  std::filesystem::permissions(python.path(), std::filesystem::perms::owner_all);
  PeerOptions how = options();
  how.python = python.path().string();
  how.script = in_tree("scripts/peers/peer.py");
  expect_unusable(how, {"PyTorch cannot be imported", "pip install torch", "ATTNLAB_PYTHON"});
}

TEST_F(Peer, FindsPythonAndScriptByTheEnvironment) {
  const std::string folder = in_tree("tests/data/nowhere");
  setenv("ATTNLAB_PEER_DIR", folder.c_str(), 1);
  EXPECT_PRED2(contains, peer_error([] { PeerProcess().hello(); }), folder);
  setenv("ATTNLAB_PEER_DIR", in_tree("scripts/peers").c_str(), 1);
  setenv("ATTNLAB_PYTHON", "no-such-python", 1);
  EXPECT_PRED2(contains, peer_error([] { PeerProcess().hello(); }), "cannot start no-such-python");
  unsetenv("ATTNLAB_PEER_DIR");
  unsetenv("ATTNLAB_PYTHON");
}

TEST_F(Peer, EachLibraryHasAProcessAndMayHaveAPython) {
  setenv("ATTNLAB_PYTHON", "no-such-python", 1);
  setenv("ATTNLAB_PYTHON_FA4", "/nowhere/python-of-fa4", 1);
  setenv("ATTNLAB_PYTHON_PY", "/nowhere/python-of-files", 1);
  PeerProcesses processes;
  EXPECT_NE(&processes.of("torch"), &processes.of("cudnn"));
  EXPECT_EQ(&processes.of("torch"), &processes.of("torch"));
  const auto said = [&](const char* library) {
    return peer_error([&] { processes.of(library).hello(); });
  };
  EXPECT_PRED2(contains, said("cudnn"), "cannot start no-such-python");
  EXPECT_PRED2(contains, said("fa4"), "cannot start /nowhere/python-of-fa4");
  EXPECT_PRED2(contains, said("py:a.py"), "cannot start /nowhere/python-of-files");
  for (const char* name : {"ATTNLAB_PYTHON", "ATTNLAB_PYTHON_FA4", "ATTNLAB_PYTHON_PY"}) {
    unsetenv(name);
  }
}

TEST(ParsePeers, NamesInheritTheirPrefix) {
  EXPECT_EQ(parse_peers("torch:eager,flash,efficient,torch:cudnn", ""),
            (Texts{"torch:eager", "torch:flash", "torch:efficient", "torch:cudnn"}));
  EXPECT_EQ(parse_peers("torch:math,torch:eager,math", ""), (Texts{"torch:math", "torch:eager"}));
}

TEST(ParsePeers, LibrariesAndFilesHaveNamesOfTheirOwn) {
  EXPECT_EQ(parse_peers("cudnn,torch:cudnn,flash,fa4,cudnn", ""),
            (Texts{"cudnn", "torch:cudnn", "torch:flash", "fa4"}));
  EXPECT_EQ(parse_peers("py:a/b.py:f, py:a/b.py:g,fa4", ""),
            (Texts{"py:a/b.py:f", "py:a/b.py:g", "fa4"}));
  for (const std::string& peer : known_peers()) EXPECT_TRUE(is_peer(peer)) << peer;
  EXPECT_TRUE(is_peer("py:a.py:f"));
  EXPECT_FALSE(is_peer("v2"));
}

TEST(ParsePeers, WhatCouldBeEitherIsRefused) {
  EXPECT_PRED2(contains, usage_error([] { parse_peers("torch:flash,cudnn", "--peer"); }),
               "'cudnn' may be torch:cudnn or cudnn: say torch:cudnn, or say cudnn first");
}

TEST(ParsePeers, SplitsIntoLibraryAndBackend) {
  const auto parts = [](const char* name) {
    const PeerName split = split_peer(name);
    return Texts{split.library, split.backend};
  };
  EXPECT_EQ(parts("torch:flash"), (Texts{"torch", "flash"}));
  EXPECT_EQ(parts("cudnn"), (Texts{"cudnn", ""}));
  EXPECT_EQ(parts("py:c:/d.py:f"), (Texts{"py:c:/d.py", "f"}));
}

TEST(ParsePeers, AFileThatIsNotThereIsAnError) {
  EXPECT_PRED2(contains, usage_error([] {
                 check_peer_files({"fa4", "py:no.py:f"}, "--peer");
               }),
               "--peer: there is no file 'no.py' (of py:no.py:f)");
  const TestFile file("", "");
  check_peer_files({"torch:eager", "py:" + file.path().string() + ":f"}, "--peer");
}

TEST(ParsePeers, RefusesAndSuggests) {
  const auto said = [](const char* text) {
    return usage_error([&] { parse_peers(text, "--peer"); });
  };
  EXPECT_PRED2(contains, said("torch:eger"), "'torch:eger'; did you mean 'torch:eager'?");
  EXPECT_PRED2(contains, said("torch:eager,falsh"), "'torch:falsh'; did you mean 'torch:flash'?");
  for (const char* text :
       {"", "eager", "torch:", "torch:eager,", "torch:eager,,math", "jax:flash", "cudnn:a"}) {
    EXPECT_PRED2(starts_with, said(text), "--peer: there is no peer") << text;
  }
  for (const char* text : {"py:", "py:a.py", "py::f", "py:a.py:"}) {
    EXPECT_PRED2(contains, said(text), "is no peer: say py:FILE.py:FUNCTION") << text;
  }
}

struct Refusal {
  const char* peer;
  const Device* device;
  Problem problem;
  const char* why;  // "": it may run
};

Problem with_mask(const char* mask, std::int64_t seqlen_q = 8, std::int64_t seqlen_k = 8) {
  Problem problem = {.dtype = Dtype::f16, .seqlen_q = seqlen_q, .seqlen_k = seqlen_k};
  problem.mask = parse_mask(mask);
  if (problem.mask.padding) problem.lengths = {.kind = LengthsKind::padding, .keys = {3}};
  return problem;
}

TEST(UnsupportedByPeer, KnowsWithoutAsking) {
  Problem packed = with_mask("none");
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed, .queries = {8}, .keys = {8}};
  Problem f32 = with_mask("none");
  f32.dtype = Dtype::f32;
  Problem packed_f16 = packed;
  packed_f16.dtype = Dtype::f16;
  packed.dtype = Dtype::f32;
  Problem with_dropout = with_mask("none");
  with_dropout.dropout = 0.1;
  const auto e4m3 = [](ScaleOf qk, ScaleOf v, std::int64_t heads_kv = 4) {
    return Problem{.dtype = Dtype::e4m3,
                   .num_heads_q = 4,
                   .num_heads_kv = heads_kv,
                   .quantisation = {.qk = qk, .v = v}};
  };
  const Problem of_heads = e4m3(ScaleOf::head, ScaleOf::head);
  Problem backward = of_heads, dropping = of_heads;
  backward.pass = Pass::bwd;
  dropping.dropout = 0.1;
  const std::vector<Refusal> refusals = {
      {"torch:eager", &kCpu, packed, "packed"},
      {"torch:cudnn", &kCpu, with_mask("none"), "no cudnn backend on a CPU"},
      {"torch:efficient", &kCpu, with_mask("none"), "no efficient backend on a CPU"},
      {"torch:flash", &kCuda, f32, "f16 and bf16 only"},
      {"torch:cudnn", &kCuda, f32, "f16 and bf16 only"},
      {"torch:efficient", &kCuda, f32, ""},
      {"torch:flash", &kCpu, f32, ""},
      {"torch:flash", &kCuda, with_mask("causal", 4), ""},
      {"torch:flash", &kCuda, with_mask("window:2:0"), "no mask but a causal one"},
      {"torch:flash", &kCuda, with_mask("padding"), "no mask but a causal one"},
      {"torch:flash", &kCuda, with_mask("blocks:butterfly:4x4"), "no mask but a causal one"},
      {"torch:flash", &kCpu, with_mask("padding"), ""},
      {"torch:cudnn", &kCuda, with_mask("blocks:butterfly:4x4"), ""},
      {"torch:eager", &kCuda, with_mask("causal", 9), "row 0 of batch entry 0 sees no key"},
      {"torch:eager", &kCuda, with_mask("window:2:0+padding"), "row 5 of batch entry 0 sees no"},
      {"cudnn", &kCpu, with_mask("none"), "runs on a GPU only"},
      {"fa4", &kCpu, with_mask("none"), "runs on a GPU only"},
      {"fa4", &kCuda, f32, "f16 and bf16 only"},
      {"cudnn", &kCuda, with_mask("blocks:butterfly:4x4"), "no block pattern"},
      {"cudnn", &kCuda, with_dropout, "no dropout"},
      {"fa4", &kCuda, packed, "f16 and bf16 only"},
      {"fa4", &kCuda, packed_f16, ""},
      {"cudnn", &kCuda, packed_f16, "no packed sequences"},
      {"fa4", &kCuda, with_mask("window:2:0"), ""},
      {"py:a.py:f", &kCpu, packed, ""},
      {"py:a.py:f", &kCpu, with_mask("causal", 9), ""},
      {"py:a.py:f", &kCuda, of_heads, ""},
      {"py:a.py:f", &kCpu, e4m3(ScaleOf::tensor, ScaleOf::head, 2), ""},
      {"py:a.py:f", &kCpu, e4m3(ScaleOf::head, ScaleOf::tensor, 2), "the 2 query heads that share"},
      {"py:a.py:f", &kCpu, e4m3(ScaleOf::block, ScaleOf::head),
       "not quant block with quant_v head"},
      {"py:a.py:f", &kCpu, e4m3(ScaleOf::head, ScaleOf::block),
       "not quant head with quant_v block"},
      {"py:a.py:f", &kCpu, e4m3(ScaleOf::tensor, ScaleOf::channel), "with quant_v channel"},
      {"py:a.py:f", &kCuda, backward, "no backward in e4m3"},
      {"py:a.py:f", &kCuda, dropping, "no dropout in e4m3"},
      {"torch:flash", &kCuda, of_heads, "is given no e4m3"},
      {"fa4", &kCuda, of_heads, "is given no e4m3"},
      {"cudnn", &kCuda, of_heads, "writes o in FP8 alone"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string why = unsupported_by_peer(refusal.peer, refusal.problem, *refusal.device);
    EXPECT_EQ(why.empty(), std::string(refusal.why).empty())
        << refusal.peer << " " << refusal.problem.id() << ": " << why;
    EXPECT_PRED2(contains, why, refusal.why) << refusal.peer << " " << refusal.problem.id();
  }
}

TEST(NeededByPeer, CopiesCastsAndFillsAreBeyond) {
  const char* const copy =
      "void at::native::elementwise_kernel<at::native::direct_copy_kernel_cuda(...)>";
  const char* const fill = "void at::native::vectorized_elementwise_kernel<FillFunctor<float> >";
  for (const char* peer : {"cudnn", "fa4", "py:a.py:f"}) {
    EXPECT_FALSE(needed_by_peer(peer, copy)) << peer;
    EXPECT_FALSE(needed_by_peer(peer, fill)) << peer;
    EXPECT_NE(computed_by_peer(peer), computed_by_peer("jax")) << peer;
  }
  EXPECT_TRUE(needed_by_peer("cudnn", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop"));
  EXPECT_TRUE(needed_by_peer(
      "fa4", "kernel_cutlass_kernel_flash_attncuteflash_fwd_sm90FlashAttentionForwardSm90"));
  EXPECT_FALSE(needed_by_peer("fa4", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop"));
  EXPECT_TRUE(needed_by_peer("py:a.py:f", "flash_fwd_kernel"));
  EXPECT_FALSE(needed_by_peer("py:a.py:f", "Memset (Device)"));
}

}  // namespace
}  // namespace attnlab
