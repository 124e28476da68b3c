#include "kernels/cpu/no_counters.h"

#include <stdexcept>

namespace attnlab::cpu {
namespace {

class NoCounters final : public Counters {
 public:
  std::string why_not() override { return "no hardware counters on the CPU backend"; }
  HardwareCounts count(const CounterRequest&, const Launch&) override {
    throw std::runtime_error(why_not());
  }
  const CounterCheck& check() override { throw std::runtime_error(why_not()); }
};

class NoKernelTrace final : public KernelTrace {
 public:
  std::string why_not() override { return "no trace of kernels on the CPU backend"; }
  std::vector<ExecutedKernel> trace(const std::function<void()>&) override {
    throw std::runtime_error(why_not());
  }
};

}  // namespace

Counters& counters() {
  static NoCounters counters;
  return counters;
}

KernelTrace& kernel_trace() {
  static NoKernelTrace trace;
  return trace;
}

}  // namespace attnlab::cpu
