// Fakes counters and a kernel trace that say what a test tells them to, and kernels to tell of.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/counters.h"
#include "kernels/api/runtime.h"

namespace attnlab::fake {

enum class Trouble : std::uint8_t { none, error, lost_device };

inline void raise(Trouble trouble, const char* words) {
  if (trouble == Trouble::error) throw std::runtime_error(words);
  if (trouble == Trouble::lost_device) throw DeviceLost(DeviceLost::Cause::error, words);
}

struct Counters final : attnlab::Counters {
  std::string why_not() override { return ""; }
  HardwareCounts count(const CounterRequest& request, const Launch& launch) override {
    requests.push_back(request);
    for (int i = 0; i < request.launches; ++i) launch(i);
    raise(trouble, "cannot count");
    return counts;
  }
  const CounterCheck& check() override {
    raise(trouble, "cannot count");
    return self_test;
  }

  HardwareCounts counts;  // of all launches together
  Trouble trouble = Trouble::none;
  CounterCheck self_test;
  std::vector<CounterRequest> requests;
};

struct KernelTrace final : attnlab::KernelTrace {
  std::string why_not() override { return ""; }
  std::vector<ExecutedKernel> trace(const std::function<void()>& work) override {
    work();
    raise(trouble, "cannot trace");
    return executed;
  }

  std::vector<ExecutedKernel> executed;
  Trouble trouble = Trouble::none;
};

// Makes an entry of 128 threads and 40 registers, with 16 + 1024 bytes of shared memory.
inline CompiledEntry compiled(const char* name, int registers = 40) {
  return {.entry = {.name = name, .threads = 128, .dynamic_shared_bytes = 1024},
          .registers = registers,
          .static_shared_bytes = 16};
}

// Makes a launch of it in blocks of 64 x 2.
inline ExecutedKernel executed(const char* symbol) {
  return {.symbol = symbol,
          .grid = {8, 1, 1},
          .block = {64, 2, 1},
          .registers = 40,
          .static_shared_bytes = 16,
          .dynamic_shared_bytes = 1024};
}

}  // namespace attnlab::fake
