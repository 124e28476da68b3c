// Describes v2, FlashAttention-2's work partitioning. Forward: one work item is one tile of query
// rows of one (batch, head) slice; it passes over the key tiles it sees and writes its rows of O
// and lse once. Backward: one work item is one tile of keys of one (batch, K/V head); it passes
// over the query tiles that see it, of every query head that shares the K/V head, and writes its
// rows of dK and dV once; what it owes to dQ it adds to fp32 sums in HBM. Source: Dao,
// FlashAttention-2 (2023), Algorithms 1 and 2, section 3.2.
#pragma once

#include "kernels/shared/mask.h"
#include "kernels/shared/params.h"
#include "kernels/shared/shape.h"
#include "kernels/shared/softmax.h"
#include "kernels/shared/tile.h"
#include "kernels/shared/tile_span.h"
#include "kernels/shared/warp_grid.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::v2 {

// Lists tiles of query rows of the query heads: for the forward, and the passes before and after
// the backward. Under a causal mask the last ones see the most keys.
ATTNLAB_HD constexpr WorkGrid row_grid(const Shape& shape, const Tiling& tiling, bool is_causal) {
  return {.batch = shape.batch,
          .heads = shape.num_heads_q,
          .blocks = tiling.m_blocks(shape.seqlen_q),
          .last_block_first = is_causal};
}

// Lists tiles of keys of the K/V heads: for the backward. The first ones, which the most rows see
// under a causal mask, go first, unless dQ is summed in a fixed order, which begins with the last.
ATTNLAB_HD constexpr WorkGrid key_grid(const Shape& shape, const Tiling& tiling, bool last_first) {
  return {.batch = shape.batch,
          .heads = shape.num_heads_kv,
          .blocks = tiling.n_blocks(shape.seqlen_k),
          .last_block_first = last_first};
}

// ForwardConfig is what a forward kernel on a GPU is compiled for.
struct ForwardConfig {
  i32 head_dim = 64;  // of the tiles: that of the problem, and columns of zeros
  i32 block_m = 128;
  i32 block_n = 64;
  i32 warps = 4;
  i32 stages = 2;        // 1: K and V have one tile each, and arrive while the other is used
  bool keeps_q = false;  // in registers
  bool dropout = false;
  i32 blocks = 1;  // that a multiprocessor shall hold at once
};

// ForwardBlock is what all threads of a block know of its work. It lies in shared memory, because
// registers are for accumulators, which take 192 of the 255 that a thread can have.
struct ForwardBlock {
  Mask mask;
  Range rows;
  TileSpan tiles;  // of keys
  i64 slice = 0;
  i64 row_offset = 0;  // of the first row in q and o
  i64 lse_offset = 0;
  i64 key_offset = 0;  // of the first key in k and v
};

// ForwardTiles maps the shared memory of a block, in byte offsets.
struct ForwardTiles {
  TileShape q;   // and O
  TileShape kv;  // of a stage, K and V each
  i32 stages = 0;

  ATTNLAB_HD constexpr i32 q_tile() const { return 0; }
  ATTNLAB_HD constexpr i32 k_tile(i32 stage) const { return q.bytes() + stage * 2 * kv.bytes(); }
  ATTNLAB_HD constexpr i32 v_tile(i32 stage) const { return k_tile(stage) + kv.bytes(); }
  ATTNLAB_HD constexpr i32 block() const { return k_tile(stages); }  // ForwardBlock
  ATTNLAB_HD constexpr i32 bytes() const {
    return block() + static_cast<i32>(sizeof(ForwardBlock));
  }
};

ATTNLAB_HD constexpr ForwardTiles forward_tiles(const ForwardConfig& config) {
  return {.q = {.rows = config.block_m, .columns = config.head_dim},
          .kv = {.rows = config.block_n, .columns = config.head_dim},
          .stages = config.stages};
}

// BackwardConfig is what the backward kernels on a GPU are compiled for.
struct BackwardConfig {
  i32 head_dim = 64;  // of the tiles
  i32 block_m = 64;
  i32 block_n = 128;
  i32 warps = 4;
  i32 stages = 2;
  // Each warp has all scores of its keys, whose P and dS then are fragments A in its registers;
  // else the warps share P and dS in shared memory.
  bool p_in_registers = false;
  bool dropout = false;
  i32 blocks = 1;
};

// Returns the rows that a warp which keeps P takes at once; block_m must be a multiple of them.
ATTNLAB_HD constexpr i32 slice_rows(i32 block_m) { return min(32, block_m); }

// BackwardBlock is what all threads of a block know of its work (as ForwardBlock).
struct BackwardBlock {
  Mask mask;
  Range keys;
  TileSpan tiles;                    // of query rows
  const i32* seen_before = nullptr;  // of each of them, see BackwardWorkspace
  i32 n_block = 0;
  i32 heads = 0;       // query heads that share the block's K and V
  i64 first_head = 0;  // of them, over the batch: the slice
  i64 row_offset = 0;  // of the first head's first row in q, o, dO
  i64 key_offset = 0;  // of the first key in k and v
};

// BackwardTiles maps the shared memory of a block, in byte offsets.
struct BackwardTiles {
  TileShape kv;  // K and V; dK and dV on their way out
  TileShape q;   // of a stage, Q and dO each
  TileShape p;   // keys x rows: dS, and P unless it is kept in registers
  i32 block_m = 0;
  i32 stages = 0;
  i32 p_tiles = 0;

  ATTNLAB_HD constexpr i32 k() const { return 0; }
  ATTNLAB_HD constexpr i32 v() const { return kv.bytes(); }
  ATTNLAB_HD constexpr i32 q_of(i32 stage) const { return 2 * kv.bytes() + stage * 2 * q.bytes(); }
  ATTNLAB_HD constexpr i32 dout_of(i32 stage) const { return q_of(stage) + q.bytes(); }
  ATTNLAB_HD constexpr i32 ds() const { return q_of(stages); }
  ATTNLAB_HD constexpr i32 p_shared() const { return ds() + p.bytes(); }
  ATTNLAB_HD constexpr i32 lse_of(i32 stage) const {
    return ds() + p_tiles * p.bytes() + stage * 2 * block_m * 4;
  }
  ATTNLAB_HD constexpr i32 delta_of(i32 stage) const { return lse_of(stage) + block_m * 4; }
  ATTNLAB_HD constexpr i32 block() const { return lse_of(stages); }  // BackwardBlock
  ATTNLAB_HD constexpr i32 bytes() const {
    return block() + static_cast<i32>(sizeof(BackwardBlock));
  }
};

ATTNLAB_HD constexpr BackwardTiles backward_tiles(const BackwardConfig& config) {
  return {.kv = {.rows = config.block_n, .columns = config.head_dim},
          .q = {.rows = config.block_m, .columns = config.head_dim},
          .p = {.rows = config.block_n, .columns = config.block_m},
          .block_m = config.block_m,
          .stages = config.stages,
          .p_tiles = config.p_in_registers ? 1 : 2};
}

// BackwardWorkspace is what the backward's kernels share in device memory.
struct BackwardWorkspace {
  float* delta = nullptr;    // (batch, num_heads_q, seqlen_q)
  float* dq_sums = nullptr;  // (batch, num_heads_q, m_blocks, block_m * head_dim), see dq_sums.cuh
  // (batch, num_heads_q, m_blocks): 1 where lse does not hold the logits of all rows.
  i32* beyond_lse = nullptr;
  // (batch, n_blocks, m_blocks); null: there is no block pattern.
  TileEntry* entries = nullptr;
  // These are set where dQ is summed in a fixed order, else null.
  i32* dq_semaphores = nullptr;  // (batch, num_heads_q, m_blocks): which tile of keys adds next
  u32* tickets = nullptr;        // how many tiles of keys each of the two kernels has begun
  // (batch, n_blocks, m_blocks): the tile of keys that the rows see before this one, which adds
  // after it, as the order is by descending keys; null: n_block - 1, since no block pattern leaves
  // any out.
  i32* seen_before = nullptr;
};

// ForwardArguments is what the kernels get of a launch, the same for the host (with T = void) and
// the GPU: the one parameter of each. A kernel copies `tensors` to pointers of its own: pointers
// read where they are used give the compiler other registers.
template <class T>
struct ForwardArguments {
  Params params;
  WorkGrid grid;
  const TileEntry* entries;  // (batch, m_blocks, n_blocks); null: no block pattern
  struct {
    const T *gQ, *gK, *gV;
    T* gO;
    float* gLse;
    OnlineSoftmax* gSaved;  // null: no backward follows
  } tensors;
};

template <class T>
struct PrepareArguments {
  Params params;
  WorkGrid grid;
  BackwardWorkspace workspace;
  struct {
    const T *gO, *gDO;
    const float* gLse;
  } tensors;
};

template <class T>
struct BackwardArguments {
  Params params;
  WorkGrid grid;
  BackwardWorkspace workspace;
  struct {
    const T *gQ, *gK, *gV, *gDO;
    const float* gLse;
    T *gDK, *gDV;
    const OnlineSoftmax* gSaved;
  } tensors;
};

template <class T>
struct FinishArguments {
  Params params;
  WorkGrid grid;
  BackwardWorkspace workspace;
  T* gDQ;
};

}  // namespace attnlab::v2
