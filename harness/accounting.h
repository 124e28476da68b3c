// What a case costs on paper: bytes, FLOPs and the bytes that no kernel can avoid.
#pragma once

#include <cstdint>

#include "harness/record.h"
#include "kernels/api/problem.h"

namespace attnlab {

// `executed` comes from the schedule (Implementation::traffic).
Flops count_flops(const Problem& problem, std::int64_t executed);

// FLOPs of the visible pairs: 4 * A * d forward, 10 * A * d backward.
std::int64_t useful_flops(const Problem& problem);

// The papers' convention: 4 * sq * sk * d * h * b forward, half of it for causal, x 2.5 backward,
// x 3.5 for both. Packed: summed over the entries.
std::int64_t paper_flops(const Problem& problem);

// Forward: q, the k and v rows that exist, o and lse, each once.
std::int64_t compulsory_bytes(const Problem& problem);

// Sizes without guards; peak_bytes is left unset.
Memory memory_needed(const Problem& problem, std::uint64_t workspace_bytes);

}  // namespace attnlab
