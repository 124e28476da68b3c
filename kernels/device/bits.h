// Gives masks and dropout of a few consecutive keys of one row at a time, as bits: what is the same
// for all of them is computed once.
#pragma once

#include "kernels/shared/dropout.h"
#include "kernels/shared/mask.h"

namespace attnlab::device {

// Returns a word with the n lowest bits set, 0 <= n <= 32.
ATTNLAB_HD constexpr u32 low_bits(i32 n) { return n >= 32 ? 0xFFFFFFFFu : (1u << n) - 1; }

// Sets bit i if row `row` sees key first + i, for i < kKeys. `seen` is band(mask, row).
template <i32 kKeys>
ATTNLAB_HD constexpr u32 visible_bits(const Mask& mask, Range seen, i64 row, i64 first) {
  static_assert(kKeys >= 1 && kKeys <= 32, "a word has 32 bits");
  const i32 begin = static_cast<i32>(min<i64>(kKeys, max<i64>(0, seen.begin - first)));
  const i32 end = static_cast<i32>(min<i64>(kKeys, max<i64>(0, seen.end - first)));
  u32 bits = low_bits(end) & ~low_bits(begin);
  if (mask.blocks.visible == nullptr || bits == 0) return bits;
  // Sizes are at most 2^31, so it takes 32-bit divisions, which cost a quarter of 64-bit ones.
  const u32 block_q = static_cast<u32>(mask.blocks.block_q);
  const u32 block_k = static_cast<u32>(mask.blocks.block_k);
  const u8* blocks = mask.blocks.visible + static_cast<u32>(row) / block_q * mask.blocks.blocks_k;
  i64 block = static_cast<u32>(first + begin) / block_k;
  for (i32 i = begin; i < end; ++block) {
    const i32 next = static_cast<i32>(min<i64>(end, (block + 1) * block_k - first));
    if (blocks[block] == 0) bits &= ~(low_bits(next) & ~low_bits(i));
    i = next;
  }
  return bits;
}

// Sets bit i if row first + i sees key `key`, for i < kRows. `seeing` is band_rows(mask, key).
template <i32 kRows>
ATTNLAB_HD constexpr u32 seeing_bits(const Mask& mask, Range seeing, i64 key, i64 first) {
  static_assert(kRows >= 1 && kRows <= 32, "a word has 32 bits");
  const i32 begin = static_cast<i32>(min<i64>(kRows, max<i64>(0, seeing.begin - first)));
  const i32 end = static_cast<i32>(min<i64>(kRows, max<i64>(0, seeing.end - first)));
  u32 bits = low_bits(end) & ~low_bits(begin);
  if (mask.blocks.visible == nullptr || bits == 0) return bits;
  const u32 block_q = static_cast<u32>(mask.blocks.block_q);
  const u32 block_k = static_cast<u32>(mask.blocks.block_k);
  const u8* blocks = mask.blocks.visible + static_cast<u32>(key) / block_k;
  i64 block = static_cast<u32>(first + begin) / block_q;
  for (i32 i = begin; i < end; ++block) {
    const i32 next = static_cast<i32>(min<i64>(end, (block + 1) * block_q - first));
    if (blocks[block * mask.blocks.blocks_k] == 0) bits &= ~(low_bits(next) & ~low_bits(i));
    i = next;
  }
  return bits;
}

// Sets bit h if the element h of a Philox call (dropout.h) is kept.
ATTNLAB_HD constexpr u32 kept_of_call(const Dropout& dropout, const PhiloxCounter& words) {
  u32 bits = 0;
  for (u32 h = 0; h < 8; ++h) {
    bits |= (select_half(words, h) >= dropout.threshold ? 1u : 0u) << h;
  }
  return bits;
}

// Sets bit i if dropout keeps (row, first + i), for i < 32. `first` is a multiple of 16. Half of
// what the eight Philox calls give belongs to another row and is lost.
ATTNLAB_HD constexpr u32 kept_bits_of_row(const Dropout& dropout, i64 slice, i64 row, i64 first) {
  u32 bits = 0;
  for (i32 call = 0; call < 8; ++call) {
    const i64 column = first + call / 4 * 16 + call % 4 * 2;
    const PhiloxCounter words = philox(dropout_counter(slice, row, column), dropout.key);
    for (i32 i = 0; i < 4; ++i) {
      const i64 key = column + i / 2 * 8 + i % 2;
      const u32 kept = select_half(words, dropout_half(row, key)) >= dropout.threshold ? 1 : 0;
      bits |= kept << (key - first);
    }
  }
  return bits;
}

// KeptShare is a lane's part of what dropout keeps in 8 columns of two rows, for pairs of lanes
// that share 16 columns: of the four Philox calls that serve them each lane makes two, and gives
// the neighbour what they say of its columns. Bit 8 * i + j: (row + 8 * i, column + j) is kept.
struct KeptShare {
  u32 own = 0;        // of this lane's elements
  u32 neighbour = 0;  // of the neighbour's
};

// Returns a lane's share; `column` is a multiple of 8, row % 16 < 8. The lane's bits are its `own`
// and what its neighbour has for it.
ATTNLAB_HD constexpr KeptShare kept_share(const Dropout& dropout, i64 slice, i64 row, i64 column) {
  const i64 half = column % 16 / 8;
  u32 bits[2] = {0, 0};  // of the 8 left columns, of the 8 right ones
  for (i32 call = 0; call < 2; ++call) {
    const i64 pair = 2 * half + call;  // columns 2 * pair and 2 * pair + 1 of both
    const i64 place = column - 8 * half + 2 * pair;
    const PhiloxCounter words = philox(dropout_counter(slice, row, place), dropout.key);
    for (u32 h = 0; h < 8; ++h) {
      const u32 kept = select_half(words, h) >= dropout.threshold ? 1 : 0;
      bits[h / 4] |= kept << (8 * (h / 2 % 2) + 2 * pair + h % 2);
    }
  }
  return half == 0 ? KeptShare{.own = bits[0], .neighbour = bits[1]}
                   : KeptShare{.own = bits[1], .neighbour = bits[0]};
}

}  // namespace attnlab::device
