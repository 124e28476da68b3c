// What v3's kernel on a GPU moves and multiplies, counted item by item as its blocks do it.
#pragma once

#include "kernels/api/problem.h"
#include "kernels/api/traffic.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Of the forward pass. Every consumer multiplies every tile of keys that any row of its item sees,
// whole: also a consumer whose own rows see none of it or do not exist, the columns of zeros that
// fill a head up to the tile, and keys beyond the last one. Bulk copies read of a tile what lies
// inside the tensor. Rows that are attended to again (attend_again.cuh) are not counted.
Traffic forward_traffic(const Problem& problem, const ForwardConfig& config);

}  // namespace attnlab::v3
