// Says which keys a query row sees, and gives the tile classes (empty, partial, full) that let a
// kernel skip what nobody sees and mask only where it must.
//
// Key c is visible to row r iff every part allows it, with D = seqlen_k - seqlen_q:
//   window   r + D - left <= c <= r + D + right     (-1: unbounded; causal is right = 0)
//   padding  c < valid_k
//   blocks   pattern[r / block_q][c / block_k] != 0
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

enum class TileClass : u8 { empty, partial, full };

// BlockPattern has its own block size, is row-major, one byte a block; `visible` null: no pattern.
struct BlockPattern {
  const u8* visible = nullptr;  // (ceil(seqlen_q / block_q), blocks_k)
  i32 block_q = 0;
  i32 block_k = 0;
  i64 blocks_k = 0;
};

// Mask is the mask of one batch entry.
struct Mask {
  i64 seqlen_q = 0;
  i64 seqlen_k = 0;
  i64 left = -1;
  i64 right = -1;
  i64 valid_k = 0;  // keys that exist: seqlen_k, or the entry's length under padding
  BlockPattern blocks;
};

// Returns the keys that window and padding let row r see; block patterns come on top.
ATTNLAB_HD constexpr Range band(const Mask& mask, i64 r) {
  const i64 diagonal = r + mask.seqlen_k - mask.seqlen_q;
  const i64 begin = mask.left < 0 ? 0 : max<i64>(0, diagonal - mask.left);
  const i64 end =
      mask.right < 0 ? mask.valid_k : min(mask.valid_k, max<i64>(0, diagonal + mask.right + 1));
  return {begin, end};
}

// Returns the rows that see key c under window and padding: the same band, read by column.
ATTNLAB_HD constexpr Range band_rows(const Mask& mask, i64 c) {
  if (c >= mask.valid_k) return {};
  const i64 diagonal = c - (mask.seqlen_k - mask.seqlen_q);
  const i64 begin = mask.right < 0 ? 0 : max<i64>(0, diagonal - mask.right);
  const i64 end =
      mask.left < 0 ? mask.seqlen_q : min(mask.seqlen_q, max<i64>(0, diagonal + mask.left + 1));
  return {begin, end};
}

ATTNLAB_HD constexpr bool block_visible(const BlockPattern& blocks, i64 r, i64 c) {
  return blocks.visible == nullptr ||
         blocks.visible[(r / blocks.block_q) * blocks.blocks_k + c / blocks.block_k] != 0;
}

ATTNLAB_HD constexpr bool is_visible(const Mask& mask, i64 r, i64 c) {
  const Range keys = band(mask, r);
  return c >= keys.begin && c < keys.end && block_visible(mask.blocks, r, c);
}

// Returns the number of keys that row r sees.
ATTNLAB_HD constexpr i64 visible_keys(const Mask& mask, i64 r) {
  const Range keys = band(mask, r);
  if (mask.blocks.visible == nullptr || keys.empty()) return keys.size();
  i64 count = 0;
  for (i64 c = keys.begin; c < keys.end;) {
    const i64 next = min(keys.end, round_up(c + 1, static_cast<i64>(mask.blocks.block_k)));
    if (block_visible(mask.blocks, r, c)) count += next - c;
    c = next;
  }
  return count;
}

// Returns the class of the rectangle rows x keys under window and padding alone. Rows lie inside
// seqlen_q; keys may reach past valid_k, which makes it partial: those keys must be masked.
ATTNLAB_HD constexpr TileClass classify_band(const Mask& mask, Range rows, Range keys) {
  const Range existing = intersect(keys, {0, mask.valid_k});
  if (rows.empty() || existing.empty()) return TileClass::empty;
  // The band moves right with the row, so the rows that see the tile form one interval.
  const Range seeing = {band_rows(mask, existing.begin).begin,
                        band_rows(mask, existing.end - 1).end};
  if (intersect(seeing, rows).empty()) return TileClass::empty;
  const bool all_see_all = keys.end <= mask.valid_k &&
                           band(mask, rows.end - 1).begin <= keys.begin &&
                           band(mask, rows.begin).end >= keys.end;
  return all_see_all ? TileClass::full : TileClass::partial;
}

// Returns the class of the rectangle rows x keys under the whole mask; it is exact: `empty` and
// `full` are returned whenever they hold. It takes O(pattern blocks that the rectangle touches).
ATTNLAB_HD constexpr TileClass classify(const Mask& mask, Range rows, Range keys) {
  if (mask.blocks.visible == nullptr) return classify_band(mask, rows, keys);
  const Range existing = intersect(keys, {0, mask.valid_k});
  if (rows.empty() || existing.empty()) return TileClass::empty;
  const BlockPattern& blocks = mask.blocks;
  const i64 block_q = blocks.block_q;
  const i64 block_k = blocks.block_k;
  bool any_visible = false;
  bool any_hidden = keys.end > mask.valid_k;
  // Finds the first blocks by divisions in 32 bits, which hold any row or key: a GPU does them in a
  // quarter of the time.
  const i64 first_q = static_cast<u32>(rows.begin) / static_cast<u32>(block_q);
  const i64 first_k = static_cast<u32>(existing.begin) / static_cast<u32>(block_k);
  for (i64 q = first_q; q * block_q < rows.end; ++q) {
    for (i64 k = first_k; k * block_k < existing.end; ++k) {
      const TileClass part =
          blocks.visible[q * blocks.blocks_k + k] != 0
              ? classify_band(mask, intersect(rows, {q * block_q, (q + 1) * block_q}),
                              intersect(existing, {k * block_k, (k + 1) * block_k}))
              : TileClass::empty;
      any_visible |= part != TileClass::empty;
      any_hidden |= part != TileClass::full;
      if (any_visible && any_hidden) return TileClass::partial;
    }
  }
  return any_visible ? TileClass::full : TileClass::empty;
}

// Returns the key tiles that rows may see under window and padding: tiles outside are empty for
// sure, tiles inside still need classify() when there is a block pattern.
ATTNLAB_HD constexpr Range n_block_range(const Mask& mask, Range rows, i64 block_n) {
  if (rows.empty()) return {};
  const Range keys = {band(mask, rows.begin).begin, band(mask, rows.end - 1).end};
  if (keys.empty()) return {};
  return {keys.begin / block_n, ceil_div(keys.end, block_n)};
}

// Returns the query tiles that may see keys under window and padding: the same, read by column.
ATTNLAB_HD constexpr Range m_block_range(const Mask& mask, Range keys, i64 block_m) {
  const Range existing = intersect(keys, {0, mask.valid_k});
  if (existing.empty()) return {};
  const Range rows = {band_rows(mask, existing.begin).begin, band_rows(mask, existing.end - 1).end};
  if (rows.empty()) return {};
  return {rows.begin / block_m, ceil_div(rows.end, block_m)};
}

// Returns those tiles of n_block_range() that are full, where there is no block pattern.
ATTNLAB_HD constexpr Range full_n_block_range(const Mask& mask, Range rows, i64 block_n) {
  if (rows.empty()) return {};
  const Range seen_by_all = {band(mask, rows.end - 1).begin, band(mask, rows.begin).end};
  return {ceil_div(seen_by_all.begin, block_n), seen_by_all.end / block_n};
}

// Returns those tiles of m_block_range() that are full, where there is no block pattern and `keys`
// lie inside valid_k. A last tile that seqlen_q cuts off is not among them.
ATTNLAB_HD constexpr Range full_m_block_range(const Mask& mask, Range keys, i64 block_m) {
  if (keys.empty()) return {};
  const Range see_all = {band_rows(mask, keys.end - 1).begin, band_rows(mask, keys.begin).end};
  return {ceil_div(see_all.begin, block_m), see_all.end / block_m};
}

// Returns the first key tile from n_block `from` on that is not empty for `rows`, or a number past
// the tiles of n_block_range(): in this order key tiles contribute to a tile of rows.
ATTNLAB_HD constexpr i64 next_n_block(const Mask& mask, Range rows, i64 block_n, i64 from) {
  const Range n_blocks = n_block_range(mask, rows, block_n);
  i64 n_block = max(from, n_blocks.begin);
  while (n_block < n_blocks.end &&
         classify(mask, rows, {n_block * block_n, (n_block + 1) * block_n}) == TileClass::empty) {
    ++n_block;
  }
  return n_block;
}

// Returns the last key tile from n_block `from` down that is not empty for `rows`, or a number
// before the tiles of n_block_range().
ATTNLAB_HD constexpr i64 previous_n_block(const Mask& mask, Range rows, i64 block_n, i64 from) {
  const Range n_blocks = n_block_range(mask, rows, block_n);
  i64 n_block = min(from, n_blocks.end - 1);
  while (n_block >= n_blocks.begin &&
         classify(mask, rows, {n_block * block_n, (n_block + 1) * block_n}) == TileClass::empty) {
    --n_block;
  }
  return n_block;
}

}  // namespace attnlab
