// Finds impossible times: a kernel that is faster than its chip did not do its work.
#pragma once

#include <optional>
#include <string>

#include "harness/record/record.h"

namespace attnlab {

// Returns the FLOP that one multiprocessor finishes a clock at best: dense products with fp32
// accumulation, on tensor cores for f16, bf16 and e4m3 (and f32 as TF32), fused multiply-adds
// otherwise. It is empty for a chip that is not known, and for e4m3 on one that has none.
std::optional<double> flops_per_clock(int compute_capability, Dtype dtype, bool tf32);

// Returns the FLOP that one thread of a processor finishes a clock at best. Our kernels do fused
// multiply-adds of their instruction set, in fp32 whatever the type; a peer may use any
// instructions, matrix units for 16-bit types among them.
double flops_per_clock_of_thread(const std::string& isa, Dtype dtype, bool is_peer);

// No processor that is sold runs faster than this, in Hz. What a machine says of its own highest
// clock leaves out boosts, or is not known in a virtual machine.
inline constexpr double kHighestProcessorClock = 6.5e9;

// Returns why the fastest sample of the record is impossible, or "". It is faster than the executed
// FLOPs (on a processor the useful ones, as for a peer) allow at the highest clock of all units,
// or, cold, than the compulsory bytes at the data sheet's bandwidth.
std::string impossible_time(const Record& record);

}  // namespace attnlab
