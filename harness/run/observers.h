// Observers are the instruments that look at what was timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/api/counters.h"
#include "kernels/api/device.h"

namespace attnlab {

// Holds the instruments of a run; a null one was not asked for or not found, as the reason says.
struct Observers {
  KernelTrace* trace = nullptr;
  std::string why_no_trace = "not asked for";
  Counters* counters = nullptr;
  std::string why_no_counters = "not asked for";
  std::string wrong_counters;        // what their self-test found; counts are marked invalid
  bool counts_are_required = false;  // what cannot be counted is invalid
  bool further_counters = false;     // CounterRequest::further
};

// With `off` the library that counts is not even loaded: nothing sees which kernels ran, either.
enum class CounterMode : std::uint8_t { automatic, off, require };

// Opens the instruments that the device has; none on a CPU. Counters are checked against work of
// known size. Throws std::runtime_error where they are required and are missing, or count wrongly.
std::optional<Observers> open_observers(CounterMode mode, const Device& device);
// Opens these instruments as open_observers() does; the mode is not off.
Observers choose_observers(CounterMode mode, Counters& counters, KernelTrace& trace);

// Says in a sentence how the counters did in their self-test, or why there are none.
std::string describe(const Observers& observers);

}  // namespace attnlab
