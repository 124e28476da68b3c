// What the hardware says of a competitor that has been timed: which kernels really ran, what they
// moved, and whether the caches were as the protocol claims. Never from launches that are timed.
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
