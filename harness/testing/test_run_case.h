// This header has a kernel that computes attention with plain loops, the faults that it can have,
// and a test fixture that runs such kernels as one case.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/progress.h"
#include "harness/plan/case.h"
#include "harness/plan/cost.h"
#include "harness/record/record.h"
#include "harness/run/context.h"
#include "harness/run/run.h"
#include "harness/testing/fake_attention.h"
#include "kernels/api/runtime.h"

namespace attnlab {

// The enum lists the faults that a fake kernel can have.
enum class Fault {
  none,
  nan_output,
  dropped_key,
  wrong_when_repeated,  // right in the launch that is verified first
  throws_in_launch,
  throws_when_repeated,
  loses_device,
  loses_device_when_repeated,
  throws_in_prepare,
  bad_alloc_in_prepare,
  writes_past_o,
  writes_past_workspace_when_repeated,
  reads_outputs,  // adds to what is there
  forgets_dq,
  wrong_dk,
  changes_o_in_backward,  // by one bit, after it was read
  changes_lse_once,       // by one bit, in the second launch
  changes_saved_in_backward,
  saves_past_its_end,
  forward_writes_past_workspace,
  takes_all_for_bshd,
  wrong_row,  // of the first slice of o
};
inline std::int64_t wrong_row = 0;

struct FakeState : PreparedKernel {
  Problem problem;
  std::uint64_t workspace_bytes;
  int launches = 0;
};

inline std::map<PreparedKernel*, std::unique_ptr<FakeState>> states;  // prepared, not released
inline int live_states() { return static_cast<int>(states.size()); }

inline constexpr std::uint64_t kSavedBytes = 40;
inline constexpr unsigned char kSavedByte = 5;

template <Fault kFault, std::uint64_t kWorkspace>
struct Fake {
  static std::string unsupported(const Problem&, const Config&, const Device&) { return ""; }
  static std::uint64_t saved_bytes(const Problem&, const Config&) { return kSavedBytes; }
  static std::uint64_t workspace_bytes(const Problem&, const Config&, const Device&) {
    return kWorkspace;
  }
  static PreparedKernel* prepare(const Problem& problem, const Config&, const Device&) {
    if (kFault == Fault::throws_in_prepare) throw std::runtime_error("cannot prepare");
    if (kFault == Fault::bad_alloc_in_prepare) throw std::bad_alloc();
    auto state = std::make_unique<FakeState>(FakeState{{}, problem, kWorkspace});
    PreparedKernel* const prepared = state.get();
    states.emplace(prepared, std::move(state));
    return prepared;
  }
  static void release(PreparedKernel* prepared) { states.erase(prepared); }
  static void launch(PreparedKernel* prepared, const Tensors& tensors, void*) {
    FakeState& state = *static_cast<FakeState*>(prepared);
    const bool repeated = ++state.launches > 1;
    Problem problem = state.problem;
    if (kFault == Fault::takes_all_for_bshd) problem.layout = Layout::bshd;
    if (kFault == Fault::throws_in_launch) throw std::runtime_error("cannot launch");
    if (kFault == Fault::throws_when_repeated && repeated) throw std::runtime_error("only once");
    if (kFault == Fault::loses_device ||
        (kFault == Fault::loses_device_when_repeated && repeated)) {
      throw DeviceLost(DeviceLost::Cause::hang, "did not end within 2 s");
    }
    if (problem.pass == Pass::fwd && tensors.dout != nullptr) {
      throw std::runtime_error("a forward has no dO");
    }
    if (problem.pass != Pass::bwd) forward(problem, tensors, repeated);
    if (problem.pass != Pass::fwd) backward(problem, tensors, state.launches == 2);
    // The kernel must get exactly the workspace that it asked for.
    if (tensors.workspace_bytes != kWorkspace) throw std::runtime_error("wrong workspace size");
    std::fill_n(static_cast<unsigned char*>(tensors.workspace), kWorkspace,
                static_cast<unsigned char>(1));
    if ((kFault == Fault::writes_past_workspace_when_repeated && repeated) ||
        (kFault == Fault::forward_writes_past_workspace && problem.pass == Pass::fwd)) {
      static_cast<unsigned char*>(tensors.workspace)[kWorkspace] = 1;
    }
  }
  static void forward(const Problem& problem, const Tensors& tensors, bool repeated) {
    float* o = static_cast<float*>(tensors.o);
    const float before = o[0];
    fake::for_each_row(problem, tensors, [](const fake::Row& row) {
      fake::attend(row, row.mask.seqlen_k - (kFault == Fault::dropped_key ? 1 : 0));
    });
    if (tensors.saved != nullptr) {
      std::fill_n(static_cast<unsigned char*>(tensors.saved),
                  kSavedBytes + (kFault == Fault::saves_past_its_end ? 1 : 0), kSavedByte);
    }
    if (kFault == Fault::wrong_row) o[make_shape(problem).q.offset(0, 0, wrong_row)] += 0.5f;
    if (kFault == Fault::nan_output) o[3] = std::numeric_limits<float>::quiet_NaN();
    if (kFault == Fault::wrong_when_repeated && repeated) o[3] += 0.5f;
    if (kFault == Fault::writes_past_o) o[problem.elements_q()] = 0.0f;
    if (kFault == Fault::reads_outputs) o[0] += before;
  }
  static void backward(const Problem& problem, const Tensors& tensors, bool is_second) {
    auto* saved = static_cast<unsigned char*>(tensors.saved);
    if (saved == nullptr || std::count(saved, saved + kSavedBytes, kSavedByte) != kSavedBytes) {
      throw std::runtime_error("not what the forward saved");
    }
    float* dk = static_cast<float*>(tensors.dk);
    std::vector<float> unused(static_cast<std::size_t>(problem.elements_q()));
    Tensors outputs = tensors;
    if (kFault == Fault::forgets_dq) outputs.dq = unused.data();
    std::fill_n(static_cast<float*>(outputs.dq), problem.elements_q(), 0.0f);
    std::fill_n(dk, problem.elements_k(), 0.0f);
    std::fill_n(static_cast<float*>(outputs.dv), problem.elements_k(), 0.0f);
    fake::for_each_row(problem, outputs, fake::differentiate);
    if (kFault == Fault::wrong_dk) dk[5] += 0.5f;
    if (kFault == Fault::changes_o_in_backward) {
      float* o = static_cast<float*>(tensors.o);
      o[2] = std::nextafter(o[2], 2.0f);
    }
    if (kFault == Fault::changes_lse_once && is_second) {
      tensors.lse[1] = std::nextafter(tensors.lse[1], 2.0f);
    }
    if (kFault == Fault::changes_saved_in_backward && problem.pass == Pass::bwd) saved[0] = 6;
  }
  static Traffic traffic(const Problem&, const Config&) {
    Traffic traffic;
    traffic[Operand::q] = {.read_bytes = 100};
    traffic.executed_flops = 12345;
    return traffic;
  }
};

template <Fault kFault, std::uint64_t kWorkspace = 1000>
const Implementation* kernel_with() {
  using F = Fake<kFault, kWorkspace>;
  static constexpr Implementation kImplementation = {.api_version = kApiVersion,
                                                     .name = "fake",
                                                     .backend = Backend::cpu,
                                                     .summary = "plain loops",
                                                     .axes = nullptr,
                                                     .num_axes = 0,
                                                     .unsupported = F::unsupported,
                                                     .workspace_bytes = F::workspace_bytes,
                                                     .saved_bytes = F::saved_bytes,
                                                     .prepare = F::prepare,
                                                     .launch = F::launch,
                                                     .release = F::release,
                                                     .traffic = F::traffic};
  return &kImplementation;
}

inline Competitor competitor(const char* name, const Implementation* implementation) {
  return {.kernel = name, .implementation = implementation};
}

class RunCase : public testing::Test {
 protected:
  RunCase() {
    work_.problem = {.batch = 2,
                     .num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = 17,
                     .seqlen_k = 33,
                     .head_dim = 8};
    work_.seed = 7;
    device_.threads = 2;
    device_.isa = "scalar";
    context_.device = &device_;
    context_.protocol = {.min_rounds = 3, .max_rounds = 3, .warmup_seconds = 0.0};
    context_.sweep_name = "test";
    context_.command_line = "attnlab run test";
    context_.memory_limit_bytes = std::uint64_t{1} << 30;
  }
  ~RunCase() override { EXPECT_EQ(live_states(), 0) << "every prepared kernel is released"; }

  std::vector<Record> run(std::vector<Competitor> competitors) {
    work_.competitors = std::move(competitors);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
    Progress progress(file.get(), case_weight(work_, context_.protocol));
    std::vector<Record> records;
    run_case(work_, context_, progress, [&](const std::vector<Record>& finished) {
      records.insert(records.end(), finished.begin(), finished.end());
      calls_.push_back(finished.size());
      live_states_at_record_.push_back(live_states());
    });
    progress.begin("after");
    std::string text(10000, '\0');
    std::rewind(file.get());
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    EXPECT_NE(text.find("100%  0:00 left  after"), std::string::npos) << text;
    return records;
  }
  Record run_one(const Implementation* implementation) {
    const std::vector<Record> records = run({competitor("fake", implementation)});
    EXPECT_EQ(records.size(), 1u);
    return records.at(0);
  }
  // Expects that a point which fails before timing says why, and how to see it again.
  void expect_failure(const Record& record, const std::string& cause) {
    EXPECT_EQ(record.status, Status::failed) << record.reason;
    EXPECT_NE(record.reason.find(work_.problem.id()), std::string::npos) << record.reason;
    EXPECT_NE(record.reason.find(cause), std::string::npos) << record.reason;
    EXPECT_NE(record.reason.find("reproduce: attnlab run --backend cpu --isa "), std::string::npos)
        << record.reason;
    EXPECT_FALSE(record.time.has_value());
  }

  Case work_;
  std::vector<int> live_states_at_record_;
  std::vector<std::size_t> calls_;  // records in each of them
  int verifications_ = 0;
  Device device_;
  RunContext context_;
};

}  // namespace attnlab
