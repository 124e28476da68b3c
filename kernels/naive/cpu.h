// Declares naive on the CPU: materialized attention, as a framework does without a fused kernel.
#pragma once

#include <cstdint>

#include "kernels/api/implementation.h"

namespace attnlab::naive {

extern const Implementation kCpu;

// WritesLse says which problems' forward leaves lse: on the CPU all (see Epilogue in cpu_passes.h),
// on a GPU those whose S is in fp32.
enum class WritesLse : std::uint8_t { always, in_f32 };

// Counts what the passes load and store, and their FLOPs.
Traffic count_passes(const Problem& problem, WritesLse writes_lse);

}  // namespace attnlab::naive
