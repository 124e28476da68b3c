// Describes v3's schedule on the CPU: FlashAttention-3's, with simulated roles. A work item belongs
// to one block of threads with roles: one producer that loads, two consumers that compute, and,
// backward, one writer that adds to dQ. Forward it is a pair of query tiles of one (batch, head),
// one tile a consumer; backward a pair of key tiles of one (batch, K/V head), one a consumer. Both
// tiles of a pair take the same stream of loads, so every role walks the tiles that the pair sees,
// whatever its own tile sees: what is here must give all roles one and the same answer. The CPU's
// modelled traffic is of this schedule, that of a GPU of schedule.h. Source: Shah et al.,
// FlashAttention-3 (2024), Algorithms 1 to 3.
#pragma once

#include "kernels/shared/layout.h"
#include "kernels/shared/mask.h"

namespace attnlab::v3 {

constexpr i32 kConsumers = 2;

// Returns the tile of a pair that consumer c works on, as a tile of the whole sequence.
ATTNLAB_HD constexpr i64 tile_of_pair(i64 pair, i32 consumer) {
  return pair * kConsumers + consumer;
}

// KeyTiles walks the key tiles that the rows of a pair of query tiles see, from last to first.
class KeyTiles {
 public:
  ATTNLAB_HD constexpr KeyTiles(const Mask& mask, Range rows, i64 block_n)
      : mask_(mask),
        rows_(rows),
        block_n_(block_n),
        n_blocks_(n_block_range(mask, rows, block_n)) {}

  ATTNLAB_HD constexpr i64 last() const { return before(n_blocks_.end); }
  // Returns the next one below n_block, or -1.
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

// QueryTile is a query tile of one of the query heads that share the item's K/V head.
struct QueryTile {
  i64 head = 0;  // within the group
  i64 m_block = 0;
};

// QueryTiles walks the query tiles of `heads` query heads that see the keys of a pair of key tiles,
// head after head, from the first to the last.
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

}  // namespace attnlab::v3
