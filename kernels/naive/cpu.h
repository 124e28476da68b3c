// naive on the CPU: materialized attention, what a framework does without a fused kernel.
#pragma once

#include <cstdint>

#include "kernels/api/implementation.h"

namespace attnlab::naive {

extern const Implementation kCpu;

// Which problems' forward leaves lse: on the CPU all (see Epilogue in cpu_passes.h), on a GPU those
// whose S is in fp32.
enum class WritesLse : std::uint8_t { always, in_f32 };

// What the passes load and store, and their FLOPs.
Traffic count_passes(const Problem& problem, WritesLse writes_lse);

}  // namespace attnlab::naive
