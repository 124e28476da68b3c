// v3: FlashAttention-3's schedule. A work item belongs to one block of threads with roles: one
// producer that loads, two consumers that compute, and, backward, one writer that adds to dQ.
// Forward: a pair of query tiles of one (batch, head), one tile a consumer. Backward: a pair of key
// tiles of one (batch, K/V head), one a consumer. Both tiles of a pair stand on the same stream of
// loads, so every role walks the tiles that the pair sees, whatever its own tile sees: what is here
// must give all roles one and the same answer. Source: Shah et al., FlashAttention-3 (2024),
// Algorithms 1 to 3.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"
#include "kernels/shared/shape.h"
#include "kernels/shared/tensor_map.h"
#include "kernels/shared/tile.h"
#include "kernels/shared/tile_span.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::v3 {

constexpr i32 kConsumers = 2;

// The slices whose items take turns, block by block, so that under a causal mask the long ones of
// all of them go first and the short ones fill the gaps at the end: as many as stay together in the
// cache, from which their tensors are read again and again, and whole groups of heads that `share`
// what the bytes are counted for.
ATTNLAB_HD constexpr i64 section_size(i64 cache_bytes, i64 shared_bytes, i64 share) {
  return max<i64>(1, cache_bytes / shared_bytes) * share;
}

// The tile of a pair that consumer c works on, as part of the whole sequence.
ATTNLAB_HD constexpr i64 tile_of_pair(i64 pair, i32 consumer) {
  return pair * kConsumers + consumer;
}

// Forward: the key tiles that the rows of a pair of query tiles see, from the last to the first.
class KeyTiles {
 public:
  ATTNLAB_HD constexpr KeyTiles(const Mask& mask, Range rows, i64 block_n)
      : mask_(mask),
        rows_(rows),
        block_n_(block_n),
        n_blocks_(n_block_range(mask, rows, block_n)) {}

  ATTNLAB_HD constexpr i64 last() const { return before(n_blocks_.end); }
  // The next one below n_block, or -1.
  ATTNLAB_HD constexpr i64 before(i64 n_block) const {
    for (--n_block; n_block >= n_blocks_.begin; --n_block) {
      const Range keys = {n_block * block_n_, (n_block + 1) * block_n_};
      if (classify(mask_, rows_, keys) != TileClass::empty) return n_block;
    }
    return -1;
  }

 private:
  const Mask& mask_;
  Range rows_;
  i64 block_n_;
  Range n_blocks_;
};

// Backward: a query tile of one of the query heads that share the item's K/V head.
struct QueryTile {
  i64 head = 0;  // within the group
  i64 m_block = 0;
};

// The query tiles of `heads` query heads that see the keys of a pair of key tiles, head after head,
// from the first to the last.
class QueryTiles {
 public:
  ATTNLAB_HD constexpr QueryTiles(const Mask& mask, Range keys, i64 block_m, i64 heads)
      : mask_(mask),
        keys_(keys),
        block_m_(block_m),
        heads_(heads),
        m_blocks_(m_block_range(mask, keys, block_m)) {}

  ATTNLAB_HD constexpr QueryTile first() const { return seen_from({0, m_blocks_.begin}); }
  ATTNLAB_HD constexpr QueryTile after(QueryTile tile) const {
    return seen_from({tile.head, tile.m_block + 1});
  }
  ATTNLAB_HD constexpr bool ended(QueryTile tile) const { return tile.head >= heads_; }

 private:
  ATTNLAB_HD constexpr QueryTile seen_from(QueryTile tile) const {
    for (; tile.head < heads_; tile = {tile.head + 1, m_blocks_.begin}) {
      for (; tile.m_block < m_blocks_.end; ++tile.m_block) {
        const Range rows = tile_range(tile.m_block, block_m_, mask_.seqlen_q);
        if (classify(mask_, rows, keys_) != TileClass::empty) return tile;
      }
    }
    return tile;
  }

  const Mask& mask_;
  Range keys_;
  i64 block_m_;
  i64 heads_;
  Range m_blocks_;
};

// What the forward kernel on a GPU is compiled for. There a work item is a tile of query rows of
// one (batch, head), 64 rows for each consumer.
struct ForwardConfig {
  i32 head_dim = 128;  // of the tiles, a multiple of 64: that of the problem, and columns of zeros
  i32 consumers = 2;   // warpgroups that compute
  i32 blocks = 1;      // that a multiprocessor shall hold at once
  i32 block_n = 128;
  i32 stages = 2;         // of K and of V
  i32 q_stages = 2;       // 2: the next item's Q arrives during this one
  bool own_o = true;      // O has a place of its own on its way out, not that of the item's Q
  bool producer = true;   // a warpgroup loads; else a thread of a consumer does
  bool overlap = true;    // S of the next tile is multiplied during the softmax of this one
  bool ping_pong = true;  // consumers take turns at the tensor cores
  bool left = false;      // the mask has a window with a left border
  bool pattern = false;   // the mask has a block pattern
  bool dropout = false;

  ATTNLAB_HD constexpr i32 block_m() const { return 64 * consumers; }
  ATTNLAB_HD constexpr i32 threads() const { return 128 * ((producer ? 1 : 0) + consumers); }
  // Of a thread. A multiprocessor has 65536, which all threads share alike, in eights, until the
  // producer gives what consumers take. It wants 40; three consumers of a large tile leave it 32.
  ATTNLAB_HD constexpr i32 producer_registers() const {
    return consumers == 3 && block_n >= 128 ? 32 : 40;
  }
  ATTNLAB_HD constexpr i32 consumer_registers() const {
    const i32 each = 65536 / blocks / threads() / 8 * 8;
    if (!producer) return min(each, 255);  // nobody gives any
    return min(240, ((consumers + 1) * each - producer_registers()) / consumers / 8 * 8);
  }
};

// How bulk copies see the tensors: 4-D, slabs of 64 columns; of o 16 rows at a time.
struct ForwardMaps {
  TensorMap q, k, v, o;
};

// What all roles know of a work item. The producer finds it out for all.
struct ForwardBlock {
  Mask mask;
  Range rows;
  i32 num_rows = 0;
  // The keys that the mask lets the first row see, [band_begin, band_end), one further to the right
  // for each row below; and those that there are.
  i32 band_begin = 0;
  i32 band_end = 0;
  i32 valid_k = 0;
  TileSpan tiles;     // of keys
  bool ends = false;  // there are no more items
  i64 slice = 0;
  i64 row_offset = 0;  // of the first row in o
  i64 lse_offset = 0;
  // Coordinates in the maps.
  i32 batch = 0;
  i32 head = 0;
  i32 kv_head = 0;
  i32 first_row = 0;
  i32 first_key = 0;  // of the batch entry
};

constexpr i32 kBlockStages = 2;  // work items known at once

// The shared memory of a block, byte offsets.
struct ForwardTiles {
  SlabTile q;   // and O, in a place of its own or in that of Q
  SlabTile kv;  // of a stage, K and V each
  i32 stages = 0;
  i32 q_stages = 0;
  bool own_o = false;

  ATTNLAB_HD constexpr i32 q_tile(i32 stage) const { return stage * q.bytes(); }
  ATTNLAB_HD constexpr i32 k_tile(i32 stage) const { return q_tile(q_stages) + stage * kv.bytes(); }
  ATTNLAB_HD constexpr i32 v_tile(i32 stage) const { return k_tile(stages) + stage * kv.bytes(); }
  ATTNLAB_HD constexpr i32 o_tile(i32 q_stage) const {
    return own_o ? v_tile(stages) : q_tile(q_stage);
  }
  ATTNLAB_HD constexpr i32 block(i32 stage) const {  // ForwardBlock
    return v_tile(stages) + (own_o ? q.bytes() : 0) +
           stage * static_cast<i32>(sizeof(ForwardBlock));
  }
  // Of each ring two for each stage.
  ATTNLAB_HD constexpr i32 q_ring() const { return round_up(block(kBlockStages), 8); }
  ATTNLAB_HD constexpr i32 k_ring() const { return q_ring() + 16 * q_stages; }
  ATTNLAB_HD constexpr i32 v_ring() const { return k_ring() + 16 * stages; }
  ATTNLAB_HD constexpr i32 block_ring() const { return v_ring() + 16 * stages; }
  ATTNLAB_HD constexpr i32 bytes() const { return block_ring() + 16 * kBlockStages; }
};

ATTNLAB_HD constexpr ForwardTiles forward_tiles(const ForwardConfig& config) {
  return {.q = {.rows = config.block_m(), .columns = config.head_dim},
          .kv = {.rows = config.block_n, .columns = config.head_dim},
          .stages = config.stages,
          .q_stages = config.q_stages,
          .own_o = config.own_o};
}

}  // namespace attnlab::v3
