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

// Empty, or why the fastest sample of the record is impossible: below its executed FLOPs (of a
// peer, the useful ones) at the highest clock, or, cold, below its compulsory bytes at the data
// sheet's bandwidth.
std::string impossible_time(const Record& record);

}  // namespace attnlab
