// Counts what v3's kernels on a GPU move and multiply, item by item as their blocks do it.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/api/traffic.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Counts the forward pass. Every consumer multiplies every tile of keys that any row of its item
// sees, and all of the tile: so does a consumer whose own rows see none of it or do not exist, and
// columns of zeros and keys beyond the last one are multiplied, too. Bulk copies read the part of a
// tile that lies inside the tensor. Rows that are attended to again (attend_again.cuh) are not
// counted.
Traffic forward_traffic(const Problem& problem, const ForwardConfig& config);

// Counts the backward pass with the kernels before and behind it. What a bulk copy adds to the sums
// of dQ is written and not read: the addition takes place beyond the multiprocessors. The copies of
// lse and delta that one of the kernels leaves for another count as delta's where they are written
// and each as its own where they are read. Heads that are worked on again (backward_again.cuh) are
// not counted.
Traffic backward_traffic(const Problem& problem, const BackwardConfig& config);

}  // namespace attnlab::v3
