// Asks the hardware about a competitor that has been timed: which kernels really ran, what they
// moved, and whether the caches were as the protocol claims. It never observes timed launches.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/plan/protocol.h"
#include "harness/run/competitor_run.h"
#include "harness/run/observers.h"
#include "kernels/api/counters.h"

namespace attnlab {

// Fills record.evidence, record.counted and record.cache_claim of one of our competitors. Throws
// Ending (Status::invalid) where the kernels that ran are not those that were asked for, where a
// claim of cold caches does not hold, where tensor cores did not do the schedule's work
// (tensor_flops.h), and where counts are required and cannot be had; DeviceLost.
void observe(CompetitorRun& run, const Observers& observers, const Device& device);

// Returns why the kernels that ran are not those that were asked for, "" if they are. `compiled`
// are the units of the pass. Each must have run a kernel of its own, as compiled: symbol, threads
// of a block, registers and shared memory. Kernels of `library` (or null) may have run beside them.
std::string contradiction(std::span<const ExecutedKernel> executed,
                          std::span<const Compilation> compiled, const char* library);

// Judges by the counted dram reads of a launch the claim that its inputs came from there (cold) or
// not (hot). A launch touches `working_set_bytes` in all.
CacheClaim judge_cache(CacheState claim, double dram_read_bytes, double compulsory_read_bytes,
                       double working_set_bytes, double l2_bytes);

}  // namespace attnlab
