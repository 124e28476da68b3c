// Says where elements lie: strides of a tensor in global memory, tile grids, and the XOR swizzles
// that keep shared-memory tiles free of bank conflicts.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

// Strides are in elements of a 4-D tensor (batch, head, row, column); columns are contiguous.
// A packed tensor [total, heads, d] has batch stride 0: the row index runs over the whole tensor.
struct Strides {
  i64 batch = 0;
  i64 head = 0;
  i64 row = 0;
  ATTNLAB_HD constexpr i64 offset(i64 b, i64 h, i64 r) const {
    return b * batch + h * head + r * row;
  }
  ATTNLAB_HD friend constexpr bool operator==(const Strides&, const Strides&) = default;
};

ATTNLAB_HD constexpr Strides strides_bshd(i64 seqlen, i64 heads, i64 head_dim) {
  return {.batch = seqlen * heads * head_dim, .head = head_dim, .row = heads * head_dim};
}

ATTNLAB_HD constexpr Strides strides_bhsd(i64 seqlen, i64 heads, i64 head_dim) {
  return {.batch = seqlen * heads * head_dim, .head = seqlen * head_dim, .row = head_dim};
}

ATTNLAB_HD constexpr Strides strides_packed(i64 heads, i64 head_dim) {
  return {.batch = 0, .head = head_dim, .row = heads * head_dim};
}

// Tiling cuts an attention matrix into tiles: block_m query rows by block_n keys.
struct Tiling {
  i32 block_m = 0;
  i32 block_n = 0;
  ATTNLAB_HD constexpr i64 m_blocks(i64 seqlen_q) const {
    return ceil_div(seqlen_q, static_cast<i64>(block_m));
  }
  ATTNLAB_HD constexpr i64 n_blocks(i64 seqlen_k) const {
    return ceil_div(seqlen_k, static_cast<i64>(block_n));
  }
  ATTNLAB_HD friend constexpr bool operator==(const Tiling&, const Tiling&) = default;
};

// Returns the rows or keys of a tile, cut off at the end of the sequence.
ATTNLAB_HD constexpr Range tile_range(i64 block, i64 block_size, i64 seqlen) {
  return intersect({block * block_size, (block + 1) * block_size}, {0, seqlen});
}

// Every visible tile takes this many matrix products.
constexpr int kForwardProducts = 2;   // S = Q K^T, O = P V
constexpr int kBackwardProducts = 5;  // S again, dP = dO V^T, dV, dK, dQ

// Returns where a byte of a row-major shared-memory tile lies under the hardware's swizzle of
// `kBytes` (32, 64 or 128) wide rows: the 16-byte chunk index is XORed with the low bits of the
// 128-byte line number, so a column of 16-byte chunks touches all banks. It is an involution that
// stays inside its 8*kBytes atom. Source: PTX ISA, tensor map swizzle modes.
template <i32 kBytes>
ATTNLAB_HD constexpr u32 swizzle(u32 offset) {
  static_assert(kBytes == 32 || kBytes == 64 || kBytes == 128, "swizzle modes are 32, 64 and 128");
  constexpr u32 kMask = (kBytes / 16 - 1) << 4;
  return offset ^ ((offset >> 3) & kMask);
}

}  // namespace attnlab
