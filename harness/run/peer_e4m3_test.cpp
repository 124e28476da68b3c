// Tests what peers are given of an e4m3 problem and how they are judged, on
// tests/data/fake_peer.py, which computes attention of it without PyTorch.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/accounting.h"
#include "harness/run/peer.h"
#include "harness/tensors/inputs.h"
#include "harness/testing/fake_file_memory.h"
#include "harness/testing/test_run_case.h"
#include "harness/testing/test_support.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

using Bytes = std::vector<std::byte>;

PeerOptions fake_peer() {
  return {.python = "python3", .script = in_tree("tests/data/fake_peer.py")};
}

class PeerOfE4m3 : public RunCase {
 protected:
  PeerOfE4m3() {
    Problem& problem = work_.problem;
    problem.dtype = Dtype::e4m3;
    problem.seqlen_k = 140;  // two blocks, whose scales are the same
    problem.num_heads_kv = problem.num_heads_q;
    problem.quantisation = {.qk = ScaleOf::head, .v = ScaleOf::head};
    context_.peers = &peers_;
  }
  void TearDown() override { unsetenv("FAKE_PEER"); }

  Record run_peer() {
    const std::vector<Record> records = run({{.kernel = "py:mine.py:attend"}});
    EXPECT_EQ(records.size(), 1u);
    return records.at(0);
  }

  PeerProcesses peers_{fake_peer()};
};

TEST_F(PeerOfE4m3, IsRightByTheCodesAndFactors) {
  for (const Quantisation& how :
       {Quantisation{.qk = ScaleOf::head, .v = ScaleOf::head},
        Quantisation{.qk = ScaleOf::tensor, .v = ScaleOf::head},
        Quantisation{.qk = ScaleOf::head, .v = ScaleOf::tensor},
        Quantisation{.qk = ScaleOf::tensor, .v = ScaleOf::tensor, .rotate = false}}) {
    work_.problem.quantisation = how;
    work_.problem.num_heads_kv = how.qk == ScaleOf::tensor ? 2 : 4;
    const Record record = run_peer();
    EXPECT_EQ(record.status, Status::ok) << record.reason;
    for (const auto* verdicts : {&record.verify, &record.verify_timed}) {
      ASSERT_EQ(verdicts->size(), 1u);
      EXPECT_DOUBLE_EQ(verdicts->at(0).coverage, 1.0);
      EXPECT_GT(verdicts->at(0).rmse_unquantised.value_or(0.0), 0.0);
    }
    EXPECT_TRUE(record.time.has_value());
    EXPECT_EQ(record.evidence->executed.value().at(0).symbol, "attend_kernel");
  }
}

TEST_F(PeerOfE4m3, ThatCannotDoItHasNoFigures) {
  setenv("FAKE_PEER", "prepare:unsupported", 1);
  const Record record = run_peer();
  EXPECT_EQ(record.status, Status::unsupported) << record.reason;
  EXPECT_FALSE(record.flops.has_value());
  EXPECT_FALSE(record.memory.has_value());
  EXPECT_FALSE(record.time.has_value());
}

TEST_F(PeerOfE4m3, FailsWithoutAFactorAndWithAnothersFactor) {
  for (const char* factor : {"q_descale", "k_descale", "v_descale"}) {
    for (const char* misdeed : {"prepare:ignores_", "outputs:ignores_", "prepare:first_"}) {
      SCOPED_TRACE(std::string(misdeed) + factor);
      setenv("FAKE_PEER", (std::string(misdeed) + factor).c_str(), 1);
      PeerProcesses peers(fake_peer());
      context_.peers = &peers;
      expect_failure(run_peer(), "o: batch ");
    }
  }
}

// Inputs of the case that the fixture has, on a device whose memory other processes can open.
class PeerInputsOfE4m3 : public PeerOfE4m3 {
 protected:
  PeerInputsOfE4m3() {
    work_.problem.num_heads_q = 4;
    work_.problem.num_heads_kv = 2;
    work_.problem.quantisation = {.qk = ScaleOf::tensor, .v = ScaleOf::head};
  }

  // Expects the factors in a file: of Q and K the same for all, of V that of each head.
  void expect_factors(const SafetensorsFile& file) {
    const E4m3Inputs& given = inputs_->host().e4m3;
    const float* const of_v = given.scale_v;
    for (const auto& [name, want] :
         {std::pair("q_descale", std::vector<float>(4, given.scale_q[0])),
          {"k_descale", std::vector<float>(4, given.scale_k[0])},
          {"v_descale", {of_v[0], of_v[2], of_v[4], of_v[6]}}}) {
      const TensorView& view = file.tensors.at(name);
      EXPECT_EQ(view.dtype, "F32");
      EXPECT_EQ(view.shape, (std::vector<std::int64_t>{2, 2}));
      ASSERT_EQ(view.bytes.size(), want.size() * sizeof(float));
      EXPECT_EQ(std::memcmp(view.bytes.data(), want.data(), view.bytes.size()), 0) << name;
    }
  }

  void make_inputs() {
    inputs_.emplace(arena_, work_.problem, InputKind::normal, 3, 1);
    EXPECT_NE(inputs_->host().e4m3.scale_v[0], inputs_->host().e4m3.scale_v[2]);
  }

  TestFolder folder_;
  fake::FileMemory memory_{folder_.path()};
  Arena arena_{memory_};
  std::optional<Inputs> inputs_;
};

TEST_F(PeerInputsOfE4m3, AFileHasTheCodesAndFactors) {
  make_inputs();
  const PeerInputs inputs(work_.problem, inputs_->host());
  const SafetensorsFile file = read_safetensors(inputs.file());
  EXPECT_EQ(file.tensors.size(), 6u);
  expect_factors(file);
  const E4m3Inputs& given = inputs_->host().e4m3;
  for (const auto& [name, codes] : {std::pair("q", given.q), {"k", given.k}, {"v", given.v}}) {
    const TensorView& view = file.tensors.at(name);
    EXPECT_EQ(view.dtype, "F8_E4M3");
    EXPECT_EQ(std::memcmp(view.bytes.data(), codes, view.bytes.size()), 0) << name;
  }
}

TEST_F(PeerInputsOfE4m3, SharedCodesHaveTheirFactorsInTheFile) {
  make_inputs();
  PeerInputs shared(work_.problem, inputs_->host(), inputs_->tensors(), memory_);
  ASSERT_EQ(shared.shared_runtime(), &memory_);
  const SafetensorsFile file = read_safetensors(shared.file());
  EXPECT_EQ(file.tensors.size(), 3u);
  expect_factors(file);
  for (const char* name : {"q", "k", "v"}) {
    EXPECT_EQ(shared.shared().at(name).at("dtype"), "F8_E4M3") << name;
  }
  PeerInputs by_file(work_.problem, inputs_->host());
  PeerProcess process(fake_peer());
  LibraryPeer peer(process, "py:mine.py:attend", Device{.backend = Backend::cuda});
  const std::uint64_t bytes = bytes_of_o(work_.problem);
  const PeerOutputs there = peer.prepare(shared);
  Bytes o(bytes);
  memory_.read(o.data(), there.attach({}).o, bytes);
  const PeerOutputs here = peer.prepare(by_file);
  EXPECT_EQ(std::memcmp(here.attach({}).o, o.data(), bytes), 0);
}

}  // namespace
}  // namespace attnlab
