// Times that cannot be: a kernel that is faster than its chip did not do its work.
#pragma once

#include <optional>
#include <string>

#include "harness/record/record.h"

namespace attnlab {

// FLOP that one multiprocessor finishes a clock at best: dense products with fp32 accumulation, on
// tensor cores for f16 and bf16 (and f32 as TF32), fused multiply-adds else. Empty for a chip that
// is not known.
std::optional<double> flops_per_clock(int compute_capability, Dtype dtype, bool tf32);

// FLOP that one thread of a processor finishes a clock at best: as fused multiply-adds of the
// instruction set that our kernels use, in fp32 whatever the type; a peer may have any that there
// is, matrix units for 16-bit types among them.
double flops_per_clock_of_thread(const std::string& isa, Dtype dtype, bool is_peer);

// No processor that is sold runs faster, Hz. What a machine says of its own highest clock leaves
// out boosts, or is not known in a virtual machine.
inline constexpr double kHighestProcessorClock = 6.5e9;

// Empty, or why the fastest sample of the record is impossible: below its executed FLOPs (of a
// peer and on a processor the useful ones) at the highest clock, of all multiprocessors or threads,
// or, cold, below its compulsory bytes at the data sheet's bandwidth.
std::string impossible_time(const Record& record);

}  // namespace attnlab
