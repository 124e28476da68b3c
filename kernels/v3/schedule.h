// Describes v3 on a GPU: what its kernels are compiled for, what all roles of a thread block know
// of a work item, and where tiles lie in shared memory. The forward comes first: a work item is a
// tile of query rows of one (batch, head), 64 rows for each consumer; all consumers multiply all
// tiles of keys that any row of the item sees, from the first to the last. A GPU's modelled traffic
// is of these schedules, counted in cuda_traffic.cpp. Source: Shah et al., FlashAttention-3 (2024),
// Algorithms 1 to 3.
#pragma once

#include "kernels/shared/mask.h"
#include "kernels/shared/params.h"
#include "kernels/shared/shape.h"
#include "kernels/shared/softmax.h"
#include "kernels/shared/tensor_map.h"
#include "kernels/shared/tile.h"
#include "kernels/shared/tile_span.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::v3 {

// Returns the registers that a thread is launched with where a multiprocessor shall hold so many
// blocks at once, as __launch_bounds__ makes ptxas do: all there are, rounded down to a multiple
// of 8.
ATTNLAB_HD constexpr i32 registers_at_launch(i32 threads, i32 blocks) {
  return 65536 / blocks / threads / 8 * 8;
}

// ForwardConfig is what the kernel is compiled for.
struct ForwardConfig {
  i32 head_dim = 128;  // of the tiles, a multiple of 64: that of the problem, and columns of zeros
  i32 consumers = 2;   // warpgroups that compute
  i32 blocks = 1;      // that a multiprocessor shall hold at once
  i32 block_n = 128;
  i32 stages = 2;          // of K and of V
  i32 q_stages = 2;        // 2: the next item's Q arrives during this one
  bool separate_o = true;  // O has a place of its own on its way out, not that of the item's Q
  bool producer = true;    // a warpgroup loads; else a thread of a consumer does
  bool overlap = true;     // P V of a tile runs beside S of the next one and its maxima
  bool ping_pong = true;   // consumers start products one after the other, in a fixed order
  bool left = false;       // the mask has a window with a left border
  bool pattern = false;    // the mask has a block pattern
  bool dropout = false;
  // If set, factors are of e4m3 (forward_e4m3.cuh), and tiles of keys go from last to first.
  bool e4m3 = false;
  bool promote = false;    // O is summed in fp32 registers, beyond what e4m3's accumulators keep
  bool v_columns = false;  // V has a scale for each of its columns; else for each block of keys

  // Returns whether the loader asks for the next item after the last K but one, not the last: with
  // three blocks' small tiles there is no time to claim and describe it after the last.
  ATTNLAB_HD constexpr bool asks_early() const { return blocks == 3; }

  // Returns whether a consumer passes over an item's last tiles that none of its own rows sees.
  // Under a causal mask the first consumer sees nothing of the last tile of 64 keys. With larger
  // tiles, of smaller head dims, what that takes costs as much as it saves (TUNING.md, 28).
  ATTNLAB_HD constexpr bool passes_unseen() const {
    return head_dim == 256 && consumers > 1 && !pattern && !e4m3;
  }

  // Returns in how many parts, of columns of V, P V of a tile is computed. Promoted, it has an
  // accumulator of its own; where nothing else is in flight, parts of 64 columns take turns in 32
  // registers of it, and three consumers fit at head_dim 128.
  ATTNLAB_HD constexpr i32 parts_of_pv() const { return promote && !overlap ? head_dim / 64 : 1; }

  // Returns in how many pieces, of 32 keys, P V of a tile is computed: without overlap P V of the
  // first keys is in flight beside the exponentials of the next ones. Promoted, that was no faster
  // (TUNING.md, e15).
  ATTNLAB_HD constexpr i32 pieces_of_pv() const {
    return e4m3 && !overlap && !promote ? block_n / 32 : 1;
  }

  ATTNLAB_HD constexpr i32 block_m() const { return 64 * consumers; }
  ATTNLAB_HD constexpr i32 threads() const { return 128 * ((producer ? 1 : 0) + consumers); }
  // Return the registers of a role's thread. By setmaxnreg the producer goes down to 40, or to 32
  // with three consumers and block_n >= 128 (not on e4m3, where it reads scales, too), and the
  // consumers go up to what that leaves: two to 232, three to 152, or 160 beside 32, one in each of
  // three blocks to 120. Only one consumer with a multiprocessor of its own meets the limit of 240.
  ATTNLAB_HD constexpr i32 producer_registers() const {
    return consumers == 3 && block_n >= 128 && !e4m3 ? 32 : 40;
  }
  ATTNLAB_HD constexpr i32 consumer_registers() const {
    const i32 each = registers_at_launch(threads(), blocks);
    if (!producer) return min(each, 255);  // nobody gives any
    return min(240, ((consumers + 1) * each - producer_registers()) / consumers / 8 * 8);
  }
};

// ForwardWorkTile is what all roles know of a work item. The scheduler finds it out for all.
struct ForwardWorkTile {
  Mask mask;
  Range rows;
  i32 num_rows = 0;
  // The mask lets the first row see keys [band_begin, band_end), and each row below one further to
  // the right; as many keys exist as valid_keys says.
  i32 band_begin = 0;
  i32 band_end = 0;
  i32 valid_k = 0;
  TileSpan tiles;     // of keys
  bool ends = false;  // there are no more items
  u8 unseen[3] = {};  // how many of the last tiles each consumer passes over: unseen_tiles()
  i64 slice = 0;
  i64 row_offset = 0;  // of the first row in o
  i64 lse_offset = 0;
  i32 batch = 0;
  // The fields below are coordinates in the maps.
  i32 map_batch = 0;  // batch, or 0 in packed tensors, whose batch entries are ranges of rows
  i32 head = 0;
  i32 kv_head = 0;
  i32 first_row = 0;
  i32 first_key = 0;  // of the batch entry
};

// Stands for "no border" of a band and limits one: 32 bits hold it, and no sequence is so long.
constexpr i64 kFar = i64{1} << 30;

// Returns ForwardWorkTile::band_end of an item whose first row is `row`.
ATTNLAB_HD constexpr i32 band_end(const Mask& mask, i64 row) {
  if (mask.right < 0) return static_cast<i32>(kFar);
  return static_cast<i32>(min<i64>(kFar, row + mask.seqlen_k - mask.seqlen_q + mask.right + 1));
}

// Returns how many of an item's last tiles of keys none of the rows of a consumer sees, if the
// first row sees keys before `band_end`: not all of them, and at most two. K of all of them is
// given back before V of the first, so beyond `stages` + 1 the loader would wait for that in vain.
ATTNLAB_HD constexpr i32 unseen_tiles(const ForwardConfig& config, i32 consumer, i32 band_end,
                                      i32 num_rows, i32 begin, i32 end) {
  if (!config.passes_unseen()) return 0;
  const i32 last_row = min(64 * (consumer + 1), num_rows) - 1;
  const i32 keys = 64 * consumer < num_rows ? max(0, band_end + last_row) : 0;
  return min(2, max(0, end - max(begin + 1, ceil_div(keys, config.block_n))));
}

constexpr i32 kWorkTileStages = 2;  // work items known at once

// E4m3WorkTile is what the roles know beside a ForwardWorkTile of a work item on e4m3.
struct E4m3WorkTile {
  float scales_log2[3];   // softmax_scale_log2 times Q's scale, of each consumer's rows
  i32 first_key = 0;      // of the batch entry in V^T
  const float* scales_k;  // of the K/V head's blocks of keys
  const float* scales_v;  // the same, or of its columns
};

// TileScales holds the scales of a tile of keys, which come with K.
struct TileScales {
  float k, v;
};

// ForwardTiles maps the shared memory of a block, in byte offsets.
struct ForwardTiles {
  SlabTile q;
  SlabTile k;  // of a stage
  SlabTile v;  // of a stage; of e4m3 V^T, head_dim x keys
  SlabTile o;  // in a place of its own, or like Q in that of Q
  bool e4m3 = false;
  i32 stages = 0;
  i32 q_stages = 0;
  bool separate_o = false;

  ATTNLAB_HD constexpr i32 q_tile(i32 stage) const { return stage * q.bytes(); }
  ATTNLAB_HD constexpr i32 k_tile(i32 stage) const { return q_tile(q_stages) + stage * k.bytes(); }
  ATTNLAB_HD constexpr i32 v_tile(i32 stage) const { return k_tile(stages) + stage * v.bytes(); }
  ATTNLAB_HD constexpr i32 o_tile(i32 q_stage) const {
    return separate_o ? v_tile(stages) : q_tile(q_stage);
  }
  ATTNLAB_HD constexpr i32 work_tile(i32 stage) const {  // ForwardWorkTile
    return v_tile(stages) + (separate_o ? o.bytes() : 0) +
           stage * static_cast<i32>(sizeof(ForwardWorkTile));
  }
  // Each ring has two mbarriers of 8 bytes a stage; `asked` is one.
  ATTNLAB_HD constexpr i32 q_ring() const { return round_up(work_tile(kWorkTileStages), 8); }
  ATTNLAB_HD constexpr i32 k_ring() const { return q_ring() + 16 * q_stages; }
  ATTNLAB_HD constexpr i32 v_ring() const { return k_ring() + 16 * stages; }
  ATTNLAB_HD constexpr i32 work_tile_ring() const { return v_ring() + 16 * stages; }
  ATTNLAB_HD constexpr i32 asked() const { return work_tile_ring() + 16 * kWorkTileStages; }
  // e4m3 alone has an E4m3WorkTile beside each work tile, and TileScales beside each K.
  ATTNLAB_HD constexpr i32 e4m3_work_tile(i32 stage) const {
    return asked() + 8 + stage * static_cast<i32>(sizeof(E4m3WorkTile));
  }
  ATTNLAB_HD constexpr i32 scales(i32 stage) const {
    return e4m3_work_tile(kWorkTileStages) + stage * static_cast<i32>(sizeof(TileScales));
  }
  ATTNLAB_HD constexpr i32 bytes() const { return e4m3 ? scales(stages) : asked() + 8; }
};

ATTNLAB_HD constexpr ForwardTiles forward_tiles(const ForwardConfig& config) {
  const i32 bytes = config.e4m3 ? 1 : 2;  // of an element
  const SlabTile rows = {.rows = config.block_m(), .columns = config.head_dim};
  const SlabTile keys = {
      .rows = config.block_n, .columns = config.head_dim, .element_bytes = bytes};
  const SlabTile transposed = {
      .rows = config.head_dim, .columns = config.block_n, .element_bytes = bytes};
  return {.q = {.rows = rows.rows, .columns = rows.columns, .element_bytes = bytes},
          .k = keys,
          .v = config.e4m3 ? transposed : keys,
          .o = rows,
          .e4m3 = config.e4m3,
          .stages = config.stages,
          .q_stages = config.q_stages,
          .separate_o = config.separate_o};
}

// ForwardSizes is what the kernel gets of a launch with ForwardMaps and ForwardPointers, the same
// for the host (with T = void) and the GPU. The maps are apart since the copies, as asm, take their
// address: in one struct with them the compiler would take all for changed by every asm that
// clobbers memory, and reload it in the loops. The pointers are apart since in one struct with the
// sizes they make the code of dropout longer, at head_dim 64.
struct ForwardSizes {
  Params params;
  WorkGrid grid;
};

// ForwardMaps is how bulk copies see the tensors: 4-D, a slab of a tile at a time; of o 16 rows.
struct ForwardMaps {
  TensorMap q, k, v, o;
};

template <class T>
struct ForwardPointers {
  const TileEntry* entries;  // (batch, m_blocks, n_blocks); null: no block pattern
  u32* next_item;            // items claimed beyond each block's first; null: static round-robin
  struct {
    const T *gQ, *gK, *gV;
    T* gO;
    float* gLse;
  } tensors;
};

// E4m3Scales holds the scales of an e4m3 problem (E4m3Inputs of kernels/api/tensors.h).
struct E4m3Scales {
  const float* q = nullptr;  // (batch, num_heads_q, blocks of kScaleRows rows)
  const float* k = nullptr;  // (batch, num_heads_kv, blocks of keys)
  const float* v = nullptr;  // the same, or (batch, num_heads_kv, head_dim)
};

// E4m3Pointers is what the e4m3 kernel gets in place of ForwardPointers.
template <class T>
struct E4m3Pointers {
  const TileEntry* entries;
  u32* next_item;
  E4m3Scales scales;
  T* gO;
  float* gLse;
};

// BackwardConfig is what the backward kernels are compiled for. A work item is a tile of keys of
// one (batch, K/V head); its consumers take all its rows of scores, of each query head that shares
// the K/V head one tile after the other. Up to head_dim 128 registers hold dK and dV of 64 keys:
// two consumers have half of the keys each (backward.cuh). Beyond, each has slabs of 64 columns of
// all keys (backward_columns.cuh). Source: Shah et al., FlashAttention-3 (2024), Algorithm 3.
struct BackwardConfig {
  i32 head_dim = 128;  // of the tiles, a multiple of 64: that of the problem, and columns of zeros
  i32 block_m = 64;    // 64, or 128 at head_dim 64
  i32 block_n = 128;
  i32 stages = 2;  // of Q, P and dS; with two or more of dS one barrier a step is enough
  bool pattern = false;
  bool dropout = false;
  bool deterministic = false;  // parts of dQ are added by ascending keys (backward_turns.cuh)

  ATTNLAB_HD constexpr bool shares_columns() const { return head_dim > 128; }
  ATTNLAB_HD constexpr i32 consumers() const { return head_dim == 192 ? 3 : 2; }
  ATTNLAB_HD constexpr i32 threads() const { return 128 * (1 + consumers()); }
  ATTNLAB_HD constexpr i32 dout_stages() const { return head_dim == 256 ? 1 : stages; }
  // Returns whether consumers have registers left for what they ask of the item between two steps.
  ATTNLAB_HD constexpr bool keeps_steps() const {
    return head_dim == 64 ? !deterministic : head_dim != 256 || !dropout;
  }
  // Returns how many slabs of 64 columns a consumer has where they share columns.
  ATTNLAB_HD constexpr i32 own_slabs() const { return head_dim / 64 / consumers(); }
  // Returns registers after setmaxnreg: the kernel is launched with 168 a thread, or 128.
  ATTNLAB_HD constexpr i32 producer_registers() const { return consumers() == 3 ? 32 : 24; }
  ATTNLAB_HD constexpr i32 consumer_registers() const { return consumers() == 3 ? 160 : 240; }
  // Returns the threads of kernels for rows: finish_rows has as many warps as added to its dQ.
  ATTNLAB_HD constexpr i32 row_threads() const { return 128 * consumers(); }
  // Returns the bytes of a tile's sums of dQ. They lie as the registers of the consumers' warps
  // have them: 16 rows and 64 columns a warp, or columns and rows.
  ATTNLAB_HD constexpr i32 dq_bytes() const {
    return block_m * head_dim * static_cast<i32>(sizeof(float));
  }
  // Returns how many of them wait on chip to be added.
  ATTNLAB_HD constexpr i32 dq_stages() const {
    return shares_columns() ? 0 : deterministic ? stages : 1;
  }
};

// BackwardWorkTile is what all roles of a block know of its work item. It lies in shared memory.
struct BackwardWorkTile {
  Mask mask;
  Range keys;
  TileSpan tiles;  // of query rows
  // The window lets rows [band_begin, band_end) see the tile's first key, and for each key to the
  // right one row further down; valid_keys counts the tile's keys that exist.
  i32 band_begin = 0;
  i32 band_end = 0;
  i32 valid_keys = 0;
  i32 heads = 0;       // query heads that share the K/V head
  i64 first_head = 0;  // of them, over the batch: the slice
  i64 key_offset = 0;  // of the first key in dk and dv
  // The fields below are coordinates in the maps.
  i32 map_batch = 0;  // 0 in packed tensors, whose batch entries are ranges of rows
  i32 head = 0;       // the first of the query heads
  i32 kv_head = 0;
  i32 first_row = 0;  // of the batch entry
  i32 first_key = 0;  // of the tile
};

// BackwardTiles maps the shared memory of a block, in byte offsets.
struct BackwardTiles {
  SlabTile kv;  // K and V each; dK and dV on their way out
  SlabTile q;   // of a stage, Q and dO each
  SlabTile p;   // of a stage: keys x rows; nothing where P stays in registers
  SlabTile ds;  // of a stage: rows x keys, beside P keys x rows
  i32 stages = 0;
  i32 dout_stages = 0;
  i32 dq_bytes = 0;  // that wait to be added, of all stages
  i32 block_m = 0;
  bool takes_turns = false;  // to add dQ

  ATTNLAB_HD constexpr i32 k() const { return 0; }
  ATTNLAB_HD constexpr i32 v() const { return kv.bytes(); }
  ATTNLAB_HD constexpr i32 q_of(i32 stage) const { return 2 * kv.bytes() + stage * q.bytes(); }
  ATTNLAB_HD constexpr i32 dout_of(i32 stage) const { return q_of(stages) + stage * q.bytes(); }
  ATTNLAB_HD constexpr i32 p_of(i32 stage) const {
    return dout_of(dout_stages) + stage * p.bytes();
  }
  ATTNLAB_HD constexpr i32 ds_of(i32 stage) const { return p_of(stages) + stage * ds.bytes(); }
  ATTNLAB_HD constexpr i32 dq() const { return ds_of(stages); }
  // Returns the bytes of log2_lse, or delta, of the rows of a stage of Q, or of dO.
  ATTNLAB_HD constexpr i32 statistic_bytes() const { return block_m * 4; }
  ATTNLAB_HD constexpr i32 lse_of(i32 stage) const {
    return dq() + dq_bytes + stage * statistic_bytes();
  }
  ATTNLAB_HD constexpr i32 delta_of(i32 stage) const {
    return lse_of(stages) + stage * statistic_bytes();
  }
  ATTNLAB_HD constexpr i32 work_tile() const { return delta_of(dout_stages); }  // BackwardWorkTile
  // Each ring has two mbarriers of 8 bytes a stage.
  ATTNLAB_HD constexpr i32 kv_ring() const {
    return round_up(work_tile() + static_cast<i32>(sizeof(BackwardWorkTile)), 8);
  }
  ATTNLAB_HD constexpr i32 q_ring() const { return kv_ring() + 16; }
  ATTNLAB_HD constexpr i32 dout_ring() const { return q_ring() + 16 * stages; }
  ATTNLAB_HD constexpr i32 dq_ring() const { return dout_ring() + 16 * dout_stages; }
  ATTNLAB_HD constexpr i32 ticket() const { return dq_ring() + 16 * stages; }
  ATTNLAB_HD constexpr i32 bytes() const { return takes_turns ? ticket() + 8 : dq_ring(); }
};

ATTNLAB_HD constexpr BackwardTiles backward_tiles(const BackwardConfig& config) {
  const SlabTile by_keys = {.rows = config.block_n, .columns = config.block_m};
  const SlabTile by_rows = {.rows = config.block_m, .columns = config.block_n};
  const bool shares_columns = config.shares_columns();
  return {.kv = {.rows = config.block_n, .columns = config.head_dim},
          .q = {.rows = config.block_m, .columns = config.head_dim},
          .p = shares_columns ? by_keys : SlabTile{},
          .ds = shares_columns ? by_keys : by_rows,
          .stages = config.stages,
          .dout_stages = config.dout_stages(),
          .dq_bytes = config.dq_stages() * config.dq_bytes(),
          .block_m = config.block_m,
          .takes_turns = config.deterministic};
}

// BackwardWorkspace is what the backward's kernels share in device memory. A tile of rows has the
// number (slice * m_blocks + m_block).
struct BackwardWorkspace {
  // Each tile of rows has block_m times lse in units of log2, then block_m times delta. Where P of
  // a row shall be 0, because it sees nothing or does not exist, the former is +inf.
  float* statistics = nullptr;
  float* dq_sums = nullptr;   // of each tile of rows block_m * head_dim, see dq_sums.cuh
  i32* beyond_lse = nullptr;  // of each tile of rows: 1 where lse does not hold all logits;
                              // behind it BackwardTurns, where dQ is summed in a fixed
                              // order, else what cleared_of() returns
  i64 ahead = 0;  // an item's block clears the sums of the group that begins so many items later
  OnlineSoftmax* states = nullptr;  // (batch, num_heads_q, seqlen_q), of rows beyond lse
  TileEntry* entries = nullptr;     // (batch, n_blocks, m_blocks); null: no block pattern
};

// BackwardTurns is what blocks share that add to dQ in a fixed order, by ascending keys. It has no
// pointers of its own in BackwardWorkspace, so that kernels of any order get what they always got.
struct BackwardTurns {
  i32* added;        // of each tile of rows: the tile of keys that has added last
  i32* added_again;  // the same of backward_again: how many of its warps have added
  u32* tickets;      // how many items each of the two kernels has begun
  // (batch, n_blocks, m_blocks): the tile of keys that the rows see before this one. It is there
  // under a block pattern; nothing else leaves any out.
  i32* seen_before;

  // Returns how many words it takes, where tiles of keys and rows have so many pairs.
  ATTNLAB_HD static constexpr i64 words(i64 row_tiles, i64 pairs) {
    return 2 * row_tiles + 2 + pairs;
  }
};

ATTNLAB_HD inline BackwardTurns turns_of(const BackwardWorkspace& workspace, i64 row_tiles) {
  i32* const added = workspace.beyond_lse + row_tiles;
  i32* const tickets = added + 2 * row_tiles;
  return {.added = added,
          .added_again = added + row_tiles,
          .tickets = reinterpret_cast<u32*>(tickets),
          .seen_before = tickets + 2};
}

// Returns of each (batch, K/V head) how many warps have cleared its sums of dQ. It is there where
// no order is fixed.
ATTNLAB_HD inline i32* cleared_of(const BackwardWorkspace& workspace, i64 row_tiles) {
  return workspace.beyond_lse + row_tiles;
}

// BackwardSizes is what the kernels get of a launch, in structs of their own as in the forward.
struct BackwardSizes {
  Params params;
  WorkGrid rows;       // tiles of rows of the query heads
  SectionedGrid keys;  // tiles of keys of the K/V heads
  BackwardWorkspace workspace;
};

struct BackwardMaps {
  TensorMap q, k, v, dout;
};

template <class T>
struct BackwardPointers {
  const T *gQ, *gK, *gV, *gO, *gDO;
  const float* gLse;
  T *gDQ, *gDK, *gDV;
};

}  // namespace attnlab::v3
