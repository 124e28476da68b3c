// This header says what a kernel with a timeline writes of each of its work items.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// Moment says when something happened: nanoseconds of the GPU's timer, which is one for all
// multiprocessors, and cycles of the multiprocessor's own clock, which are finer.
struct Moment {
  u64 nanoseconds = 0;
  u64 cycles = 0;
};

// TimelineItem follows a work item through a thread block. An item without tiles has no first_k and
// no first_product: those moments are zero.
struct TimelineItem {
  u32 times = 0;  // that blocks have claimed it, over all launches since it was cleared
  u32 multiprocessor = 0;
  u32 block = 0;  // or its place, where each item has a block of its own: the multiprocessor
  u32 describe_cycles = 0;  // that the scheduler took to find out what the item is
  Moment claimed;           // a block has taken it
  Moment published;         // it is described, and all roles of the block know of it
  Moment first_k;           // the copy of its first tile of K has been issued
  Moment first_product;     // the first warpgroup that computes starts its first product next
  Moment last_store;        // the last warp has issued its last store
};

}  // namespace attnlab
