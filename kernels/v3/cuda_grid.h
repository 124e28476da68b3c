// Orders the work items of v3's kernels on a GPU, and says how thread blocks share them.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Returns whether work items differ in length: thread blocks then claim the next one from a
// counter. Else they take a static round-robin with stride gridDim.x.
bool is_uneven(const Problem& problem);

WorkGrid forward_grid(const Problem& problem, const ForwardConfig& config);

// Lists tiles of query rows of the query heads: for the passes before and behind the backward.
WorkGrid row_grid(const Problem& problem, const BackwardConfig& config);

// Lists tiles of keys of the K/V heads, for the backward. Under a causal mask the first ones, which
// the most rows see, go first. All tiles of a head pass over its Q, dO and sums of dQ, which shall
// stay in the L2 meanwhile: as many heads are interleaved as an L2 of 50 MB keeps. Up to 2048 keys
// it is faster if the tiles of a head, or of a few, follow one another. The last heads, with a wave
// of tiles or two, are interleaved in any case, so that multiprocessors end together.
SectionedGrid key_grid(const Problem& problem, const BackwardConfig& config);

// Returns BackwardWorkspace::ahead: how many items before a group's first one its sums of dQ are
// cleared. A block works on one item, so these are as many as run at once, or four times as many
// where the sums take longer to clear than short items take under a causal mask. Under a pattern or
// window all items may be shorter than that: there all sums are cleared first.
i64 clearing_ahead(const Problem& problem, const BackwardConfig& config, i64 multiprocessors);

}  // namespace attnlab::v3
