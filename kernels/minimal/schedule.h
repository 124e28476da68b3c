// Schedules minimal: a block of 32 workers owns 32 query rows of one (batch, head) slice, one each,
// and passes over all keys in tiles of 32. Per slice of n rows and m keys it reads n d + 2 ceil(n /
// 32) m d elements and writes n d + n: each block reads all of K and V.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/params.h"
#include "kernels/shared/shape.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::minimal {

constexpr i32 kBlock = 32;  // workers of a block (= query rows), and keys of a tile
constexpr Tiling kTiling = {.block_m = kBlock, .block_n = kBlock};

// A work item is a block of rows.
ATTNLAB_HD constexpr WorkGrid row_blocks_grid(const Shape& shape) {
  return {
      .batch = shape.batch, .heads = shape.num_heads_q, .blocks = kTiling.m_blocks(shape.seqlen_q)};
}

// On a GPU a row is read four floats at a time.
ATTNLAB_HD constexpr i32 quads(i64 head_dim) {
  return static_cast<i32>(ceil_div<i64>(head_dim, 4));
}

// Returns the bytes of Q, O, and a tile of K and of V.
ATTNLAB_HD constexpr u64 shared_bytes(i64 head_dim) {
  return u64{4} * kBlock * static_cast<u64>(quads(head_dim)) * 16;
}

// ForwardArguments is what the kernel gets of a launch, on host and GPU alike: its one parameter.
struct ForwardArguments {
  Params params;
  const float *gQ, *gK, *gV;
  float *gO, *gLse;
};

}  // namespace attnlab::minimal
