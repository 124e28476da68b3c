// One launch of a kernel on memory between guards: what the tests of this folder share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/api/registry.h"
#include "kernels/shared/convert.h"
#include "reference/oracle.h"
#include "reference/tolerance.h"

namespace attnlab::testing_support {

// Bytes between guards. Everything starts as 0xFF: NaN in every type, so that what is not written
// is seen, and what is written outside too.
class Guarded {
 public:
  explicit Guarded(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        storage_(bytes_ + 2 * kGuardBytes + kAlignment, std::byte{0xFF}) {}

  void* data() {
    void* place = storage_.data() + kGuardBytes;
    std::size_t space = storage_.size() - kGuardBytes;
    return std::align(kAlignment, 1, place, space);
  }

  bool guards_hold() {
    const std::byte* begin = static_cast<std::byte*>(data());
    for (const std::byte* p = storage_.data(); p < storage_.data() + storage_.size(); ++p) {
      if (p >= begin && p < begin + bytes_) continue;
      if (*p != std::byte{0xFF}) return false;
    }
    return true;
  }

  std::vector<std::byte> bytes() {
    const std::byte* begin = static_cast<std::byte*>(data());
    return {begin, begin + bytes_};
  }

 private:
  static constexpr std::size_t kGuardBytes = 2048, kAlignment = 256;
  std::size_t bytes_;
  std::vector<std::byte> storage_;
};

inline void set_element(Dtype dtype, void* tensor, std::int64_t index, float value) {
  if (dtype == Dtype::f32) {
    static_cast<float*>(tensor)[index] = value;
  } else {
    static_cast<std::uint16_t*>(tensor)[index] =
        dtype == Dtype::f16 ? f16_from_f32(value) : bf16_from_f32(value);
  }
}

// q, k, v and dO of a problem, N(0, 1), with q multiplied by `factor_q`.
struct Inputs {
  Inputs(const Problem& problem, std::uint32_t seed, float factor_q = 1.0f)
      : q(problem.elements_q() * size_bytes(problem.dtype)),
        k(problem.elements_k() * size_bytes(problem.dtype)),
        v(problem.elements_k() * size_bytes(problem.dtype)),
        dout(problem.elements_q() * size_bytes(problem.dtype)),
        pattern(make_block_pattern(problem)),
        cu_seqlens_q(1),
        cu_seqlens_k(1) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](Guarded& tensor, std::int64_t elements, float factor) {
      for (std::int64_t i = 0; i < elements; ++i) {
        set_element(problem.dtype, tensor.data(), i, factor * normal(generator));
      }
    };
    fill(q, problem.elements_q(), factor_q);
    fill(k, problem.elements_k(), 1.0f);
    fill(v, problem.elements_k(), 1.0f);
    fill(dout, problem.elements_q(), 1.0f);
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      keys.push_back(static_cast<std::int32_t>(problem.keys(b)));
      cu_seqlens_q.push_back(cu_seqlens_q.back() + static_cast<std::int32_t>(problem.queries(b)));
      cu_seqlens_k.push_back(cu_seqlens_k.back() + keys.back());
    }
  }

  Tensors tensors() {
    return {.q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .dout = dout.data(),
            .keys = keys.data(),
            .cu_seqlens_q = cu_seqlens_q.data(),
            .cu_seqlens_k = cu_seqlens_k.data(),
            .block_pattern = pattern.data()};
  }

  Guarded q, k, v, dout;
  std::vector<std::uint8_t> pattern;
  std::vector<std::int32_t> keys, cu_seqlens_q, cu_seqlens_k;
};

inline reference::References make_references(const Problem& problem, Inputs& inputs) {
  const auto samples = reference::choose_samples(problem, std::int64_t{1} << 23, 11);
  return reference::make_references(problem, inputs.tensors(), samples, 2);
}

// What a launch left behind.
struct Outcome {
  std::vector<std::vector<std::byte>> outputs;  // of the pass, in the order o, lse, dq, dk, dv
  std::string failure;                          // empty: the oracle agrees
};

// Runs the problem's pass once on fresh outputs; a backward after a forward of its own.
inline Outcome run(const Implementation& kernel, const Problem& problem, const Config& config,
                   const Device& device, Inputs& inputs, const reference::References& references) {
  const std::int64_t size = size_bytes(problem.dtype);
  Guarded o(problem.elements_q() * size), lse(problem.elements_lse() * 4);
  Guarded dq(problem.elements_q() * size), dk(problem.elements_k() * size),
      dv(problem.elements_k() * size);
  Guarded saved(static_cast<std::int64_t>(kernel.saved_bytes(problem, config)));
  const std::string name = std::string(kernel.name) + " " + config.to_string() + " " + device.isa +
                           " " + problem.id() + ": ";
  Outcome result;
  Tensors tensors = inputs.tensors();
  tensors.o = o.data();
  tensors.lse = static_cast<float*>(lse.data());
  if (problem.pass != Pass::fwd) tensors.saved = saved.data();

  const auto launch = [&](const Problem& part) {
    const std::uint64_t workspace_bytes = kernel.workspace_bytes(part, config, device);
    Guarded workspace(static_cast<std::int64_t>(workspace_bytes));
    tensors.workspace = workspace.data();
    tensors.workspace_bytes = workspace_bytes;
    PreparedKernel* prepared = kernel.prepare(part, config, device);
    kernel.launch(prepared, tensors, nullptr);
    kernel.release(prepared);
    if (!workspace.guards_hold()) result.failure = name + "wrote outside workspace";
  };
  if (problem.pass == Pass::bwd) {
    Problem forward = problem;
    forward.pass = Pass::fwd;
    launch(forward);
  }
  const auto o_before = o.bytes(), lse_before = lse.bytes();
  if (problem.pass != Pass::fwd) {
    tensors.dq = dq.data();
    tensors.dk = dk.data();
    tensors.dv = dv.data();
  }
  launch(problem);

  for (const auto& verdict : reference::judge(problem, tensors, references)) {
    if (!verdict.pass) result.failure = name + verdict.message;
  }
  for (const auto& [tensor, what] : {std::pair{&o, "o"},
                                     {&lse, "lse"},
                                     {&dq, "dq"},
                                     {&dk, "dk"},
                                     {&dv, "dv"},
                                     {&saved, "saved"},
                                     {&inputs.q, "q"},
                                     {&inputs.k, "k"},
                                     {&inputs.v, "v"},
                                     {&inputs.dout, "dout"}}) {
    if (!tensor->guards_hold()) result.failure = name + "wrote outside " + what;
  }
  if (problem.pass == Pass::bwd && (o.bytes() != o_before || lse.bytes() != lse_before)) {
    result.failure = name + "a backward changed o or lse";
  }
  if (problem.pass != Pass::bwd) result.outputs = {o.bytes(), lse.bytes()};
  if (problem.pass != Pass::fwd) {
    for (Guarded* gradient : {&dq, &dk, &dv}) result.outputs.push_back(gradient->bytes());
  }
  return result;
}

}  // namespace attnlab::testing_support
