// Numbers the named barriers of v3's forward (PTX bar, 16 a block).
#pragma once

#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Each consumer has two: one for its turn in the order in which consumers start products, one for
// its own four warps; all consumers have one together. 0 is that of __syncthreads(). No turn is
// waited for in vain: all consumers of a block take their turns at all tiles that any row of the
// work item sees, also those with no rows of their own.
template <ForwardConfig kConfig>
struct NamedBarriers {
  static constexpr i32 kAll = 1 + 2 * kConfig.consumers;
  static_assert(kAll < 16, "a block has 16 named barriers");

  static __device__ i32 order(i32 consumer) { return 1 + consumer; }
  static __device__ i32 of_consumer(i32 consumer) { return 1 + kConfig.consumers + consumer; }
  static __device__ i32 of_all_consumers() { return kAll; }
};

}  // namespace attnlab::v3
