// Tests arena, inputs, outputs and what is brought back, on a device whose memory only its runtime
// can reach.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "harness/plan/accounting.h"
#include "harness/tensors/host_tensors.h"
#include "harness/tensors/inputs.h"
#include "harness/tensors/outputs.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/fake_runtime.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Bytes = std::vector<std::uint8_t>;

class DeviceMemory : public testing::Test {
 protected:
  ~DeviceMemory() override { EXPECT_EQ(device_.live(), 0u) << "buffers that nobody released"; }

  Bytes read(const void* data, std::uint64_t bytes) {
    Bytes contents(bytes);
    device_.read(contents.data(), data, bytes);
    return contents;
  }
  // Writes to the device's memory, as its kernels would.
  void spoil(const void* data, std::int64_t byte) {
    auto* const address = const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(data)) + byte;
    *device_.on_device(address, 1) ^= 1;
  }

  fake::SeparateMemory device_;
  Problem problem_ = {.pass = Pass::fwdbwd,
                      .dtype = Dtype::bf16,
                      .batch = 2,
                      .num_heads_q = 4,
                      .num_heads_kv = 2,
                      .seqlen_q = 12,
                      .seqlen_k = 20,
                      .head_dim = 8};
};

Bytes bytes_at(const void* data, std::uint64_t bytes) {
  const auto* const begin = static_cast<const std::uint8_t*>(data);
  return {begin, begin + bytes};
}

TEST_F(DeviceMemory, TheFakeRefusesWhatADeviceCannotDo) {
  void* const data = device_.allocate(8);
  Bytes host(8);
  EXPECT_THROW(device_.write(host.data(), host.data(), 8), std::logic_error);
  EXPECT_THROW(device_.write(data, data, 8), std::logic_error);
  EXPECT_THROW(device_.read(data, data, 8), std::logic_error);
  EXPECT_THROW(device_.fill(data, 0, 9), std::logic_error);
  device_.release(data);
}

TEST_F(DeviceMemory, ArenaFillsGuardsAndFindsWhoWroteIntoThem) {
  Arena arena(device_);
  const Arena::Buffer a = arena.allocate("a", 12);
  const Arena::Buffer b = arena.allocate("b", 100);
  EXPECT_TRUE(device_.owns(b.get()));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.get()) % Arena::kAlignment, 0u);
  EXPECT_EQ(read(b.get(), 100), Bytes(100, 0xFF));
  EXPECT_EQ(arena.restore_guards(), "");
  spoil(b.get(), 99);
  EXPECT_EQ(arena.restore_guards(), "") << "inside";
  spoil(b.get(), 102);
  EXPECT_EQ(arena.restore_guards(), "wrote outside b, 2 bytes past its last byte");
  EXPECT_EQ(arena.restore_guards(), "") << "restored";
  spoil(a.get(), -1);
  EXPECT_EQ(arena.restore_guards(), "wrote outside a, 1 bytes before its first byte");
}

TEST_F(DeviceMemory, ARefusedAllocationLeavesNothing) {
  Arena arena(device_);
  device_.limit_bytes = 1 << 16;
  EXPECT_THROW(std::ignore = arena.allocate("huge", 1 << 17), std::bad_alloc);
  EXPECT_EQ(arena.current_bytes(), 0u);
}

TEST_F(DeviceMemory, NamedBuffersKnowWhatChanged) {
  Arena arena(device_);
  NamedBuffers mine, theirs;
  for (NamedBuffers* buffers : {&mine, &theirs}) {
    for (const char* name : {"x", "y"}) {
      device_.fill(buffers->allocate(arena, name, "owner", 40), 7, 40);
    }
  }
  NamedBuffers third;
  void* const x = third.allocate(arena, "x", "", 40);
  void* const y = third.allocate(arena, "y", "", 40);
  device_.fill(x, 7, 40);
  device_.fill(y, 7, 40);
  mine.seal();
  third.seal();
  EXPECT_EQ(mine.different(theirs), Texts{});
  EXPECT_EQ(third.different(mine), Texts{});
  EXPECT_EQ(third.changed(), "");
  spoil(y, 39);
  EXPECT_EQ(third.changed(), "y");
  EXPECT_EQ(third.different(mine), Texts{"y"});
  EXPECT_EQ(mine.changed(), "");
  third.seal();
  EXPECT_EQ(third.changed(), "");
}

// The values are the same on the device, beside it, and where the host is the device.
TEST_F(DeviceMemory, InputsAreTheSameHereAndThere) {
  Arena on_host;
  Arena arena(device_);
  const auto expect_same = [&](const Inputs& inputs, const Inputs& plain, const char* name,
                               const auto member, std::uint64_t bytes) {
    const Bytes want = bytes_at(plain.host().*member, bytes);
    EXPECT_TRUE(device_.owns(inputs.tensors().*member)) << name;
    EXPECT_EQ(bytes_at(inputs.host().*member, bytes), want) << name;
    EXPECT_EQ(read(inputs.tensors().*member, bytes), want) << name;
    EXPECT_EQ(plain.tensors().*member, plain.host().*member) << name;
  };
  for (const bool packed : {false, true}) {
    Problem problem = problem_;
    problem.layout = packed ? Layout::packed : Layout::bhsd;
    problem.mask = parse_mask(packed ? "causal" : "padding+blocks:random:50:4:4x4");
    problem.seqlen_q = problem.seqlen_k;
    problem.lengths = {.kind = LengthsKind::padding, .given = true, .keys = {20, 5}};
    if (packed) {
      problem.lengths = {
          .kind = LengthsKind::packed, .given = true, .queries = {20, 3}, .keys = {9, 20}};
    }
    const Inputs inputs(arena, problem, InputKind::normal, 5, 2);
    const Inputs plain(on_host, problem, InputKind::normal, 5, 1);
    expect_same(inputs, plain, "q", &Tensors::q, bytes_like_q(problem));
    expect_same(inputs, plain, "k", &Tensors::k, bytes_like_k(problem));
    expect_same(inputs, plain, "v", &Tensors::v, bytes_like_k(problem));
    expect_same(inputs, plain, "dO", &Tensors::dout, bytes_like_q(problem));
    if (packed) {
      expect_same(inputs, plain, "cu_seqlens_q", &Tensors::cu_seqlens_q, 3 * sizeof(std::int32_t));
      expect_same(inputs, plain, "cu_seqlens_k", &Tensors::cu_seqlens_k, 3 * sizeof(std::int32_t));
    } else {
      expect_same(inputs, plain, "keys", &Tensors::keys, 2 * sizeof(std::int32_t));
      expect_same(inputs, plain, "block_pattern", &Tensors::block_pattern, 25);
    }
    EXPECT_EQ(inputs.tensors().o, nullptr);
  }
}

TEST_F(DeviceMemory, InputsThatAreWrittenAnewAreSoOnBothSides) {
  Arena arena(device_);
  Inputs inputs(arena, problem_, InputKind::normal, 5, 1);
  inputs.seal();
  EXPECT_EQ(inputs.changed(), "");
  inputs.fill(InputTensor::k, [](auto b, auto head, auto row, auto col) {
    return static_cast<float>(b + head + row + col);
  });
  EXPECT_EQ(inputs.changed(), "k");
  const std::uint64_t bytes = bytes_like_k(problem_);
  EXPECT_EQ(read(inputs.tensors().k, bytes), bytes_at(inputs.host().k, bytes));
  inputs.seal();
  spoil(inputs.tensors().v, 3);
  EXPECT_EQ(inputs.changed(), "v");
}

TEST_F(DeviceMemory, CodesAndScalesAreTheSameHereAndThere) {
  Problem problem = problem_;
  problem.pass = Pass::fwd;
  problem.dtype = Dtype::e4m3;
  Arena arena(device_);
  Arena on_host;
  Inputs inputs(arena, problem, InputKind::normal, 5, 2);
  Inputs plain(on_host, problem, InputKind::normal, 5, 1);
  const auto expect_same = [&](const auto member, std::int64_t elements) {
    const auto bytes = static_cast<std::uint64_t>(elements) * sizeof(*(inputs.host().e4m3.*member));
    const Bytes want = bytes_at(plain.tensors().e4m3.*member, bytes);
    EXPECT_TRUE(device_.owns(inputs.tensors().e4m3.*member));
    EXPECT_EQ(read(inputs.tensors().e4m3.*member, bytes), want);
    EXPECT_EQ(bytes_at(inputs.host().e4m3.*member, bytes), want);
    EXPECT_EQ(plain.host().e4m3.*member, plain.tensors().e4m3.*member);
  };
  const auto expect_all_same = [&] {
    expect_same(&E4m3Inputs::q, problem.elements_q());
    expect_same(&E4m3Inputs::k, problem.elements_k());
    expect_same(&E4m3Inputs::v, problem.elements_k());
    expect_same(&E4m3Inputs::v_transposed, elements_v_transposed(problem));
    expect_same(&E4m3Inputs::scale_q, elements_scale_q(problem));
    expect_same(&E4m3Inputs::scale_k, elements_scale_k(problem));
    expect_same(&E4m3Inputs::scale_v, elements_scale_v(problem));
  };
  expect_all_same();
  const std::uint8_t before = inputs.host().e4m3.v[0];
  for (Inputs* either : {&inputs, &plain}) {
    either->fill(InputTensor::v,
                 [](auto, auto, auto row, auto) { return row == 0 ? -1.0f : 1.0f; });
  }
  expect_all_same();
  EXPECT_NE(inputs.host().e4m3.v[0], before);
}

TEST_F(DeviceMemory, OutputsAreOfThePass) {
  Arena arena(device_);
  const auto kernel = fake::make("fake", Backend::cuda, false);
  const auto set = [](const Tensors& tensors) {
    std::string names;
    if (tensors.o != nullptr) names += "o ";
    if (tensors.lse != nullptr) names += "lse ";
    if (tensors.saved != nullptr) names += "saved ";
    if (tensors.dq != nullptr) names += "dq ";
    if (tensors.dk != nullptr) names += "dk ";
    if (tensors.dv != nullptr) names += "dv ";
    return names;
  };
  problem_.pass = Pass::fwd;
  Outputs forward(arena, "fake", problem_, kernel, 40);
  const Tensors left = forward.attach({});
  EXPECT_EQ(set(left), "o lse saved ");
  EXPECT_EQ(read(left.lse, bytes_of_lse(problem_)), Bytes(bytes_of_lse(problem_), 0xFF));
  forward.seal();
  spoil(left.saved, 39);
  EXPECT_EQ(forward.changed(), "saved");
  problem_.pass = Pass::bwd;
  const Outputs backward(arena, "fake", problem_, kernel, 40);
  EXPECT_EQ(set(backward.attach({})), "dq dk dv ");
  const Tensors both = backward.attach(left);
  EXPECT_EQ(set(both), "o lse saved dq dk dv ");
  EXPECT_EQ(both.o, left.o) << "a backward keeps what its forward left";
}

TEST_F(DeviceMemory, HostTensorsBringTheOutputs) {
  Arena arena(device_);
  const Inputs inputs(arena, problem_, InputKind::normal, 5, 1);
  const Outputs outputs(arena, "fake", problem_, fake::make("fake", Backend::cuda, false), 40);
  const Tensors there = outputs.attach(inputs.tensors());
  const std::uint64_t like_q = bytes_like_q(problem_), like_k = bytes_like_k(problem_);
  device_.fill(there.o, 1, like_q);
  device_.fill(there.lse, 2, bytes_of_lse(problem_));
  device_.fill(there.dq, 3, like_q);
  device_.fill(there.dk, 4, like_k);
  device_.fill(there.dv, 5, like_k);
  const HostTensors host(problem_, there, inputs.host(), device_);
  const Tensors& here = host.tensors();
  EXPECT_EQ(bytes_at(here.o, like_q), Bytes(like_q, 1));
  EXPECT_EQ(bytes_at(here.lse, bytes_of_lse(problem_)), Bytes(bytes_of_lse(problem_), 2));
  EXPECT_EQ(bytes_at(here.dq, like_q), Bytes(like_q, 3));
  EXPECT_EQ(bytes_at(here.dk, like_k), Bytes(like_k, 4));
  EXPECT_EQ(bytes_at(here.dv, like_k), Bytes(like_k, 5));
  EXPECT_EQ(here.q, inputs.host().q);
  EXPECT_EQ(here.saved, nullptr) << "stays on the device";
  EXPECT_EQ(here.workspace, nullptr);

  Tensors no_lse = there;
  no_lse.lse = nullptr;
  no_lse.dq = nullptr;
  const HostTensors fewer(problem_, no_lse, inputs.host(), device_);
  EXPECT_EQ(fewer.tensors().lse, nullptr);
  EXPECT_EQ(fewer.tensors().dq, nullptr);
}

TEST_F(DeviceMemory, HostTensorsOfTheHostAreTheTensors) {
  Arena arena;
  const Inputs inputs(arena, problem_, InputKind::normal, 5, 1);
  const Outputs outputs(arena, "fake", problem_, fake::make("fake", Backend::cpu, false), 0);
  const Tensors tensors = outputs.attach(inputs.tensors());
  const HostTensors host(problem_, tensors, inputs.host(), arena.runtime());
  EXPECT_EQ(host.tensors().o, tensors.o);
  EXPECT_EQ(host.tensors().lse, tensors.lse);
  EXPECT_EQ(host.tensors().dk, tensors.dk);
  EXPECT_EQ(host.tensors().q, tensors.q);
}

}  // namespace
}  // namespace attnlab
