// What the hardware says of a competitor that has been timed: which kernels really ran, what they
// moved, and whether the caches were as the protocol claims. Never from launches that are timed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/entrant.h"
#include "kernels/api/counters.h"

namespace attnlab {

// The instruments of a run; null: not asked for or not there, and the reason says why.
struct Observers {
  KernelTrace* trace = nullptr;
  std::string why_no_trace = "not asked for";
  Counters* counters = nullptr;
  std::string why_no_counters = "not asked for";
  std::string wrong_counters;        // what their self-test found; counts are marked invalid
  bool counts_are_required = false;  // what cannot be counted is invalid
  bool further_counters = false;     // CounterRequest::further
};

// off: the library that counts is not even loaded, so kernels that ran are not seen either.
enum class CounterMode : std::uint8_t { automatic, off, require };

// The instruments that the device has; nothing on a CPU. Counters are checked against work of known
// size. Throws std::runtime_error where they are required and are not there, or count wrongly.
std::optional<Observers> open_observers(CounterMode mode, const Device& device);
// The same of these instruments; the mode is not off.
Observers choose_observers(CounterMode mode, Counters& counters, KernelTrace& trace);

// One sentence for people: how the counters did in their self-test, or why there are none.
std::string describe(const Observers& observers);

// Fills record.evidence, record.counted and record.cache_claim of one of our competitors. Throws
// Ending (Status::invalid) where the kernels that ran are not those that were asked for, where a
// claim of cold caches does not hold, and where counts are required and cannot be had; DeviceLost.
void observe(Entrant& entrant, const Observers& observers, const Device& device);

// Why the kernels that ran are not those that were asked for; empty if they are. `compiled` are the
// units of the pass. Each must have run a kernel of its own, as compiled: symbol, threads of a
// block, registers and shared memory. `library`: whose kernels may have run beside them, or null.
std::string contradiction(std::span<const ExecutedKernel> executed,
                          std::span<const Compilation> compiled, const char* library);

// What the counted dram reads of a launch say about the claim that its inputs came from there
// (cold) or not (hot). `working_set_bytes`: all that a launch touches.
CacheClaim judge_cache(CacheState claim, double dram_read_bytes, double compulsory_read_bytes,
                       double working_set_bytes, double l2_bytes);

}  // namespace attnlab
