#include "harness/run/observers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

// Drops counters whose self-test cannot run; keeps those that fail it, but marks them.
void check_counters(Counters& counters, Observers& observers) {
  try {
    const std::string& wrong = counters.check().wrong;
    if (!wrong.empty()) observers.wrong_counters = "the counters' self-test failed: " + wrong;
    observers.counters = &counters;
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::bad_alloc&) {
    observers.why_no_counters =
        "the counters' self-test needs a GiB of the GPU's memory, which is not free";
  } catch (const std::exception& error) {
    observers.why_no_counters =
        fmt::format("the counters' self-test could not run: {}", error.what());
  }
}

}  // namespace

std::optional<Observers> open_observers(CounterMode mode, const Device& device) {
  if (device.backend == Backend::cpu) {
    if (mode == CounterMode::require) {
      throw std::runtime_error("--counters require: " + counters_of(device).why_not() +
                               "; take --backend cuda");
    }
    return std::nullopt;
  }
  if (mode == CounterMode::off) {
    return Observers{.why_no_trace = "--counters off", .why_no_counters = "--counters off"};
  }
  return choose_observers(mode, counters_of(device), kernel_trace_of(device));
}

Observers choose_observers(CounterMode mode, Counters& counters, KernelTrace& trace) {
  Observers observers;
  observers.why_no_trace = trace.why_not();
  if (observers.why_no_trace.empty()) observers.trace = &trace;
  observers.why_no_counters = counters.why_not();
  if (observers.why_no_counters.empty()) check_counters(counters, observers);
  observers.counts_are_required = mode == CounterMode::require;
  const std::string& lack =
      observers.counters == nullptr ? observers.why_no_counters : observers.wrong_counters;
  if (observers.counts_are_required && !lack.empty()) {
    throw std::runtime_error("--counters require: " + lack);
  }
  return observers;
}

std::string describe(const Observers& observers) {
  if (observers.counters == nullptr) {
    return fmt::format("Counters: none: {}.", observers.why_no_counters);
  }
  if (!observers.wrong_counters.empty()) {
    return fmt::format("Counters: marked invalid: {}.", observers.wrong_counters);
  }
  double worst = 0.0;
  for (const CounterCheck::Line& line : observers.counters->check().lines) {
    worst = std::max(worst, std::abs(line.counted_bytes / line.expected_bytes - 1.0));
  }
  return fmt::format("Counters: within {:.2f} % on a copy and a read of known size.",
                     100.0 * worst);
}

}  // namespace attnlab
