// Schedules v1: FlashAttention as first published. The outer loop runs over tiles of keys, which
// stay in fast memory; the inner loop over tiles of query rows, whose running O, l and m are loaded
// from HBM and stored back at every step. One work item is one (batch, head): nothing else runs in
// parallel. Source: Dao, Fu, Ermon, Rudra and Re, FlashAttention (2022): Algorithms 1 and 2
// (forward), 4 (backward), 5 (block-sparse). Line numbers are those of Algorithms 1 and 4.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"
#include "kernels/shared/params.h"
#include "kernels/shared/tile.h"
#include "kernels/shared/tile_span.h"
#include "kernels/shared/warp_grid.h"

namespace attnlab::v1 {

// The default is the fast memory of one thread block in elements: 192 KiB of fp32, the A100's
// on-chip memory in the paper (section 2.1).
constexpr i64 kDefaultSram = 49152;

// AskedBlocks holds the block sizes that a user asks for; 0 stands for the paper's.
struct AskedBlocks {
  i64 block_m = 0;
  i64 block_n = 0;
};

// Follows Algorithm 1, line 1: K_j, V_j, Q_i and O_i get a quarter of the M = `sram` elements each,
//   Bc = ceil(M / 4d) keys,  Br = min(Bc, d) query rows;
// the second bound keeps the Br x Bc scores within the same quarter. Neither is capped beyond that.
ATTNLAB_HD constexpr Tiling make_tiling(i64 sram, i64 head_dim, AskedBlocks asked = {}) {
  const i64 quarter = ceil_div(sram, 4 * head_dim);
  return {.block_m = static_cast<i32>(asked.block_m > 0 ? asked.block_m : min(quarter, head_dim)),
          .block_n = static_cast<i32>(asked.block_n > 0 ? asked.block_n : quarter)};
}

// Returns whether `rows` see any key tile from n_block `from` on. From 0: whether they see anything
// at all; from n_block + 1: whether n_block is not the last step of their O or dQ.
ATTNLAB_HD constexpr bool sees_keys(const Mask& mask, Range rows, i64 block_n, i64 from) {
  return next_n_block(mask, rows, block_n, from) < n_block_range(mask, rows, block_n).end;
}

// RowVisits says which tiles of keys visit a tile of rows first and last; first > last if none
// does. At the first visit there is no O, l, m or dQ to load yet, at the last they are complete.
struct RowVisits {
  i32 first = 0;
  i32 last = -1;
  ATTNLAB_HD constexpr bool any() const { return first <= last; }
};

ATTNLAB_HD constexpr RowVisits row_visits_of(const Mask& mask, Range rows, i64 block_n) {
  const i64 end = n_block_range(mask, rows, block_n).end;
  return {.first = static_cast<i32>(next_n_block(mask, rows, block_n, 0)),
          .last = static_cast<i32>(previous_n_block(mask, rows, block_n, end))};
}

// Returns the tiles of rows that see a tile of keys; `entries` are theirs, or null.
ATTNLAB_HD constexpr TileSpan rows_of_keys(const Mask& mask, Range keys, i64 block_m,
                                           const TileEntry* entries) {
  return make_span(m_block_range(mask, keys, block_m),
                   keys.end <= mask.valid_k ? full_m_block_range(mask, keys, block_m) : Range{},
                   entries);
}

// Elements counts what crosses the border to HBM, in closed form.
struct Elements {
  i64 read = 0;
  i64 written = 0;
  ATTNLAB_HD friend constexpr bool operator==(const Elements&, const Elements&) = default;
};

// Returns how many query rows the inner loops of one head take up in all: Tc * N without a mask; if
// a fraction of the blocks is not empty, Tc * N * fraction (tiles that divide N).
ATTNLAB_HD constexpr i64 row_visits(const Tiling& tiling, i64 seqlen_q, i64 seqlen_k) {
  return tiling.n_blocks(seqlen_k) * seqlen_q;
}

// Counts one query head. With N = seqlen_q = seqlen_k this is the paper's
//   reads 2Nd + Tc (2Nd + 2N): K and V once; Q, O, l and m at each visit;
//   writes Tc (Nd + 2N): O, l and m at each visit;
// and beside it, written: O = 0, l = 0 and m = -inf before the first visit (Nd + 2N), lse at the
// last one (N).
ATTNLAB_HD constexpr Elements forward_elements(i64 seqlen_q, i64 seqlen_k, i64 head_dim,
                                               i64 visits) {
  return {.read = 2 * seqlen_k * head_dim + visits * (2 * head_dim + 2),
          .written = visits * (head_dim + 2) + seqlen_q * (head_dim + 2) + seqlen_q};
}

// Counts one K/V head and the `sharing` query heads that read it, with `visits` of one of them.
//   reads 2Nd + Tc (4Nd + 2N): K and V once; Q, O, dO, dQ, l and m at each visit;
//   writes 2Nd + Tc Nd: dK and dV once, dQ at each visit; and dQ = 0 at first (Nd).
ATTNLAB_HD constexpr Elements backward_elements(i64 seqlen_q, i64 seqlen_k, i64 head_dim,
                                                i64 visits, i64 sharing) {
  return {.read = 2 * seqlen_k * head_dim + sharing * visits * (4 * head_dim + 2),
          .written = 2 * seqlen_k * head_dim + sharing * (visits + seqlen_q) * head_dim};
}

// ForwardConfig is what the forward kernel is compiled for. A thread block has one (batch, head).
// Its warps form teams; each team takes a tile of rows at a time, slice by slice, and its `splits`
// warps split the tile of keys among themselves; of a chunk of O each warp combines a share,
// own_rows() x own_columns().
struct ForwardConfig {
  i32 head_dim = 64;  // of the tiles: that of the problem, and columns of zeros
  i32 block_m = 32;
  i32 block_n = 256;
  i32 teams = 4;
  i32 splits = 2;        // 1 or 2
  i32 slice_rows = 32;   // 16 or 32
  i32 columns = 16;      // of O that are combined at once: a chunk; 32 where two share 16 rows
  bool keeps_o = false;  // the running O arrives in registers, not in shared memory
  bool dropout = false;

  ATTNLAB_HD constexpr i32 warps() const { return teams * splits; }
  ATTNLAB_HD constexpr i32 warp_keys() const { return block_n / splits; }
  ATTNLAB_HD constexpr i32 own_rows() const { return max(16, slice_rows / splits); }
  ATTNLAB_HD constexpr i32 own_columns() const {
    return slice_rows * columns / (splits * own_rows());
  }
  ATTNLAB_HD constexpr i32 chunks() const { return head_dim / columns; }
  // Returns how many buffers slices alternate between for the statistics that splits send. Several
  // chunks need only one: a later chunk's barrier lies between reading and writing it again.
  ATTNLAB_HD constexpr i32 statistics_buffers() const { return chunks() > 1 ? 1 : 2; }
};

// KeyTile is a tile of keys that a block passes by.
struct KeyTile {
  i32 n_block = 0;
  i32 first_own = 0;  // tile of rows of the team that has this copy (the backward)
  i64 first_key = 0;
  i64 key_offset = 0;  // in k, v, dK, dV
  TileSpan tiles;      // of rows that see it
};

// Rounds to whole lines, so that the next team's buffers are aligned to one: copies that cross
// lines ask the L2 for more than they bring (TUNING.md).
constexpr i32 kKeyTileBytes = round_up(static_cast<i32>(sizeof(KeyTile)), kLineBytes);

// ForwardBlock is what all threads of a block know of its work. It lies in shared memory, because
// registers are for scores.
struct ForwardBlock {
  Mask mask;
  const RowVisits* visits = nullptr;  // of the batch entry
  i32 m_blocks = 0;                   // of the longest batch entry
  i64 batch = 0;
  i64 slice = 0;
  i64 row_offset = 0;  // of the slice's first row in q and o
  i64 key_offset = 0;  // of its first key in k and v
  i64 statistics = 0;  // of its first row in l, m and lse
  KeyTile next_keys;   // after the tile that is on chip
};

// ForwardTiles maps a block's shared memory, in bytes: K and V, then what each team has for itself.
struct ForwardTiles {
  TileShape kv;  // K and V each
  TileShape q;   // of this step and of the next; the rows of O on their way out
  i32 teams = 0;
  i32 o = 0;           // running O, fp32
  i32 partial_o = 0;   // that each split sends another: a share, two buffers, fp32
  i32 statistics = 0;  // of own_rows() that each split sends another: OnlineSoftmax
  ATTNLAB_HD constexpr i32 k() const { return 0; }
  ATTNLAB_HD constexpr i32 v() const { return kv.bytes(); }
  ATTNLAB_HD constexpr i32 team_bytes() const {
    return 2 * q.bytes() + o + partial_o + statistics + kKeyTileBytes;
  }
  ATTNLAB_HD constexpr i32 q_of(i32 team, i32 stage) const {
    return 2 * kv.bytes() + team * team_bytes() + stage * q.bytes();
  }
  ATTNLAB_HD constexpr i32 o_of(i32 team) const { return q_of(team, 2); }
  ATTNLAB_HD constexpr i32 partial_o_of(i32 team) const { return o_of(team) + o; }
  ATTNLAB_HD constexpr i32 statistics_of(i32 team) const { return partial_o_of(team) + partial_o; }
  ATTNLAB_HD constexpr i32 keys_of(i32 team) const { return statistics_of(team) + statistics; }
  ATTNLAB_HD constexpr i32 block() const { return q_of(teams, 0); }  // ForwardBlock
  ATTNLAB_HD constexpr i32 bytes() const {
    return block() + static_cast<i32>(sizeof(ForwardBlock));
  }
};

ATTNLAB_HD constexpr ForwardTiles forward_tiles(const ForwardConfig& config) {
  return {.kv = {.rows = config.block_n, .columns = config.head_dim},
          .q = {.rows = config.block_m, .columns = config.head_dim},
          .teams = config.teams,
          .o = config.keeps_o ? 0 : config.block_m * config.head_dim * 4,
          .partial_o = config.splits == 1 ? 0 : 2 * config.slice_rows * config.columns * 4,
          .statistics = config.splits == 1
                            ? 0
                            : config.statistics_buffers() * config.splits * config.own_rows() * 8};
}

constexpr i32 kBackwardWarps = 8;

// BackwardConfig is what the backward kernel is compiled for. Its warps form one team or two; each
// team takes a tile of rows at a time, and has sums of dK and dV of its own rows.
struct BackwardConfig {
  i32 head_dim = 64;  // of the tiles
  i32 block_m = 64;
  i32 block_n = 128;
  i32 teams = 1;
  bool dropout = false;

  ATTNLAB_HD constexpr i32 team_warps() const { return kBackwardWarps / teams; }
  // With two teams each warp has all scores of its keys, whose P and dS then are fragments A in
  // its registers; the warps of one team share P and dS in shared memory.
  ATTNLAB_HD constexpr bool p_in_registers() const { return teams == 2; }
  // Returns the rows a warp takes at once if it has all of them; dropout's bits need registers.
  ATTNLAB_HD constexpr i32 slice_rows() const { return min(dropout ? 16 : 32, block_m); }
};

// BackwardBlock is what all threads of a block know of its work: a K/V head and the query heads
// that share it. It lies in shared memory, because registers are for accumulators.
struct BackwardBlock {
  Mask mask;
  const RowVisits* visits = nullptr;  // of the batch entry
  i32 heads = 0;
  i32 m_blocks = 0;  // of the longest batch entry
  i64 batch = 0;
  i64 first_slice = 0;  // of the query heads, over the batch
  i64 row_offset = 0;   // of the first head's first row in q, o, dO, dQ
  i64 key_offset = 0;   // of the first key in k, v, dK, dV
  i64 statistics = 0;   // of the first head's first row in l and m
  KeyTile next_keys;    // after the tile that is on chip
};

// BackwardTiles maps a block's shared memory, in bytes: K and V, then what each team has for
// itself, given for the first team.
struct BackwardTiles {
  TileShape kv;  // K and V; dK and dV on their way out
  TileShape q;   // Q and dO of a stage, and O; dQ on its way out in the place of Q
  TileShape p;   // keys x rows: dS, and P unless it is kept in registers
  i32 teams = 0;
  i32 p_tiles = 0;
  static constexpr i32 kStages = 2;

  ATTNLAB_HD constexpr i32 statistic() const { return q.rows * 4; }
  ATTNLAB_HD constexpr i32 k() const { return 0; }
  ATTNLAB_HD constexpr i32 v() const { return kv.bytes(); }
  ATTNLAB_HD constexpr i32 q_of(i32 stage) const { return 2 * kv.bytes() + stage * 2 * q.bytes(); }
  ATTNLAB_HD constexpr i32 dout_of(i32 stage) const { return q_of(stage) + q.bytes(); }
  ATTNLAB_HD constexpr i32 o() const { return q_of(kStages); }
  ATTNLAB_HD constexpr i32 ds_tile() const { return o() + q.bytes(); }
  ATTNLAB_HD constexpr i32 p_tile() const { return ds_tile() + p.bytes(); }
  ATTNLAB_HD constexpr i32 m_of(i32 stage) const {
    return ds_tile() + p_tiles * p.bytes() + stage * 2 * statistic();
  }
  ATTNLAB_HD constexpr i32 l_of(i32 stage) const { return m_of(stage) + statistic(); }
  ATTNLAB_HD constexpr i32 lse() const { return m_of(kStages); }  // of the step, base 2
  ATTNLAB_HD constexpr i32 delta() const { return lse() + statistic(); }
  ATTNLAB_HD constexpr i32 visits_of(i32 stage) const {  // RowVisits
    return delta() + statistic() + stage * kChunkBytes;
  }
  ATTNLAB_HD constexpr i32 keys() const { return visits_of(kStages); }  // KeyTile
  ATTNLAB_HD constexpr i32 team_bytes() const {
    return round_up(keys() + static_cast<i32>(sizeof(KeyTile)) - q_of(0), kLineBytes);
  }
  // Returns whether a dK or dV in fp32, which a team sends the other, fits in front of keys().
  ATTNLAB_HD constexpr bool sends() const {
    return teams == 1 || kv.rows * kv.columns * 4 <= keys() - q_of(0);
  }
  ATTNLAB_HD constexpr i32 block() const { return q_of(0) + teams * team_bytes(); }
  ATTNLAB_HD constexpr i32 bytes() const {
    return block() + static_cast<i32>(sizeof(BackwardBlock));
  }
};

ATTNLAB_HD constexpr BackwardTiles backward_tiles(const BackwardConfig& config) {
  return {.kv = {.rows = config.block_n, .columns = config.head_dim},
          .q = {.rows = config.block_m, .columns = config.head_dim},
          .p = {.rows = config.block_n, .columns = config.block_m},
          .teams = config.teams,
          .p_tiles = config.p_in_registers() ? 1 : 2};
}

// Workspace is what v1 keeps in device memory between its steps.
struct Workspace {
  const RowVisits* visits = nullptr;   // (batch, m_blocks)
  const TileEntry* entries = nullptr;  // (batch, n_blocks, m_blocks); null: no block pattern
  float* m = nullptr;                  // (batch, num_heads_q, seqlen_q), units of log2
  float* l = nullptr;                  // (batch, num_heads_q, seqlen_q)
  // (batch, num_heads_q, m_blocks, block_m * head_dim): holds the running O, normalised at every
  // step (Algorithm 1, line 12), or dQ while it is being summed; in the order in which the tensor
  // cores leave them: see forward_team.cuh, backward_parts.cuh.
  float* sums = nullptr;
  // (batch, num_heads_q): 1 where lse does not hold the logits of all rows.
  i32* beyond_lse = nullptr;
  bool saves = false;  // a backward follows, which wants m and l
};

// ForwardArguments is what the kernels get of a launch, the same for the host (with T = void) and
// the GPU: the one parameter of each. A kernel copies `tensors` to pointers of its own: pointers
// read where they are used give the compiler other registers.
template <class T>
struct ForwardArguments {
  Params params;
  Workspace workspace;
  struct {
    const T *gQ, *gK, *gV;
    T* gO;
    float* gLse;
  } tensors;
};

template <class T>
struct BackwardArguments {
  Params params;
  Workspace workspace;
  struct {
    const T *gQ, *gK, *gV, *gO, *gDO;
    T *gDQ, *gDK, *gDV;
  } tensors;
};

struct VisitsArguments {
  Params params;
  Tiling tiling;
  RowVisits* visits;
};

}  // namespace attnlab::v1
