// Orders the work items of v3's kernels on a GPU, and says how thread blocks share them.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/shared/work_grid.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Returns whether work items differ in length: thread blocks then claim the next one from a
// counter. Else they take a static round-robin with stride gridDim.x.
bool is_uneven(const Problem& problem);

// Returns whether small items (ForwardConfig::small_items) make a launch shorter, by 1 % or more.
// It is predicted for 132 multiprocessors, and for three consumers that take equal items of a dense
// batch by the static round-robin: others have none. A launch ends with the blocks that have the
// most to do, and the prediction says of what: how many items, and how many of them are short.
bool gains_by_small_items(const Problem& problem, const ForwardConfig& config);

// Lists the work items of the forward. Without a mask slices follow one another. With small items
// the last ones are cut into these, as many as end the launch soonest, for they fill the last wave
// better. They are whole slices, so that K and V of all others are read but once. Slices whose last
// item is short anyway are interleaved by a few where else the same blocks got all of the long
// ones: of three items each, 132 blocks would.
ForwardGrid forward_grid(const Problem& problem, const ForwardConfig& config);

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
