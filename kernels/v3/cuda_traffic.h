// Counts what v3's kernel on a GPU moves and multiplies, item by item as its blocks do it.
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

}  // namespace attnlab::v3
