// These functions count what a point costs on paper: bytes, FLOPs, and the bytes that no kernel can
// avoid.
#pragma once

#include <cstdint>
#include <optional>

#include "harness/plan/case.h"
#include "kernels/api/problem.h"

namespace attnlab {

struct Flops {
  std::int64_t useful = 0;               // 4 * A * d forward, 10 * A * d backward; A: visible pairs
  std::optional<std::int64_t> executed;  // whole tiles; empty: not known, of a peer
  std::int64_t paper = 0;                // 4 * sq * sk * d * h * b, halved for causal
};

// o is an output of fwd and fwdbwd and an input of bwd; what a forward leaves for its backward
// beside o stands apart in every pass.
struct Memory {
  std::uint64_t inputs_bytes = 0;   // q, k, v, lists; with a backward dO
  std::uint64_t outputs_bytes = 0;  // o; dQ, dK, dV
  std::uint64_t saved_bytes = 0;    // lse, and what the kernel itself saves (naive: P)
  std::uint64_t workspace_bytes = 0;
  std::optional<std::uint64_t> peak_bytes;  // measured by the arena while this competitor ran
};

// Describes the bytes of a block mask, so that a pattern from a file can be recognised.
struct PatternSummary {
  double visible_fraction = 0.0;  // of the blocks
  std::uint64_t hash = 0;         // fnv1a() of the bytes, row by row, 1: visible
};

// Counts the FLOPs; `executed` comes from the schedule (Implementation::traffic), if there is one.
Flops count_flops(const Problem& problem, std::optional<std::int64_t> executed);

// Counts the FLOPs of the visible pairs: 4 * A * d forward, 10 * A * d backward.
std::int64_t useful_flops(const Problem& problem);

// Counts by the papers' convention: 4 * sq * sk * d * h * b forward, half of it for causal, x 2.5
// backward, x 3.5 for both. Packed problems are summed over the entries.
std::int64_t paper_flops(const Problem& problem);

// Counts what the pass must read and write, each element once. Forward: q, k, v; o, lse. Backward:
// q, k, v, o, dO, lse; dQ, dK, dV. Both: q, k, v, dO; o, lse, dQ, dK, dV. Keys that padding hides
// are not read, but their gradients are written.
std::int64_t compulsory_bytes(const Problem& problem);

// Returns the same problem with Pass::fwd, which runs before a backward that is timed alone.
Problem forward_of(Problem problem);

// Returns what the kernel leaves for its backward beside o and lse: 0 for Pass::fwd.
std::uint64_t kernel_saved_bytes(const Problem& problem, const Competitor& competitor);

// Returns what a launch of the competitor needs, without guards; peak_bytes is left unset.
Memory memory_needed(const Problem& problem, const Competitor& competitor, const Device& device);

// Returns the workspace of the forward that comes before a Pass::bwd; 0 for other passes.
std::uint64_t forward_workspace_bytes(const Problem& problem, const Competitor& competitor,
                                      const Device& device);

// Returns the most that the competitor needs at once, alone: memory_needed(), with the larger
// workspace of Pass::bwd and the forward before it, and the sum of all as peak_bytes.
Memory most_memory(const Problem& problem, const Competitor& competitor, const Device& device);
std::uint64_t most_bytes(const Problem& problem, const Competitor& competitor,
                         const Device& device);

// Counts one set of outputs: what a launch of the competitor writes and what the kernel saves.
std::uint64_t bytes_of_outputs(const Problem& problem, const Competitor& competitor);
// Counts the results alone, without lse: o; dQ, dK, dV.
std::uint64_t bytes_of_results(const Problem& problem);

// Returns the most that the competitor needs at once, alone, to be timed with two sets of outputs.
std::uint64_t most_bytes_timed(const Problem& problem, const Competitor& competitor,
                               const Device& device);

// Counts q, k, v, with a backward dO, and the lists that tell kernels about lengths and patterns.
std::uint64_t bytes_of_inputs(const Problem& problem);

// Counts what a launch reads of these: of e4m3 codes, V in one form, and scales, not q, k and v.
std::uint64_t bytes_read_of_inputs(const Problem& problem);

// Counts the codes and scales of e4m3 among these; 0 of another type.
std::uint64_t bytes_of_codes(const Problem& problem);

// These count the bytes of a tensor like q (also dO, dQ), like k (also v, dK, dV), of o, of lse.
std::uint64_t bytes_like_q(const Problem& problem);
std::uint64_t bytes_like_k(const Problem& problem);
std::uint64_t bytes_of_o(const Problem& problem);
std::uint64_t bytes_of_lse(const Problem& problem);

// Sums up the blocks of the problem's pattern; nothing if it has none or none can be formed.
std::optional<PatternSummary> summarize_pattern(const Problem& problem);

}  // namespace attnlab
