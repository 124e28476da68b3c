// Says which tiles a work item on a GPU passes over.
#pragma once

#include "kernels/shared/mask.h"

namespace attnlab {

// TileEntry is what a kernel finds out before a pass about a tile under a block pattern, in a byte.
class TileEntry {
 public:
  static constexpr i32 kFar = 127;

  TileEntry() = default;
  // `to_seen` says how many tiles further on one is not empty (0 if it is empty itself), or where
  // that is too far, a tile on the way.
  ATTNLAB_HD constexpr TileEntry(i32 to_seen, bool is_partial)
      : bits_(static_cast<u8>(min(to_seen, kFar) * 2 + (is_partial ? 1 : 0))) {}

  ATTNLAB_HD constexpr i32 to_seen() const { return bits_ >> 1; }
  ATTNLAB_HD constexpr bool is_partial() const { return (bits_ & 1) != 0; }

 private:
  u8 bits_ = 0;
};

// TileSpan is the tiles that a work item on a GPU passes over, in their order: of keys for a tile
// of query rows, or of query rows for a tile of keys. A window's borders are known beforehand; what
// a block pattern hides is looked up.
struct TileSpan {
  i32 begin = 0;
  i32 end = 0;
  i32 full_begin = 0;  // without a pattern: tiles in [full_begin, full_end) are full
  i32 full_end = 0;
  const TileEntry* entries = nullptr;  // with a pattern: of every tile

  // Returns the first of `block`, block + stride, ... that is not empty; `end` or more if none is.
  ATTNLAB_HD constexpr i32 not_empty(i32 block, i32 stride = 1) const {
    if (entries == nullptr) return block;
    while (block < end) {
      const i32 step = entries[block].to_seen();
      if (step == 0) break;
      block += round_up(step, stride);
    }
    return block;
  }
  // Returns the last tile at or before `block` that is not empty; less than `begin` if none is.
  ATTNLAB_HD constexpr i32 not_empty_before(i32 block) const {
    if (entries == nullptr) return block;
    while (block >= begin && entries[block].to_seen() != 0) --block;
    return block;
  }
  // These walk over all tiles that are not empty, up or down (kDown): `begin` and `end` - 1 are
  // such tiles then, where there are any.
  template <bool kDown>
  ATTNLAB_HD constexpr i32 first() const {
    return kDown ? end - 1 : begin;
  }
  template <bool kDown>
  ATTNLAB_HD constexpr i32 next(i32 block) const {
    return kDown ? not_empty_before(block - 1) : not_empty(block + 1);
  }
  template <bool kDown>
  ATTNLAB_HD constexpr bool is_past(i32 block) const {
    return kDown ? block < begin : block >= end;
  }
  // Returns the end of the run of tiles from `block` on, which is not empty, that surely have its
  // class. Without kPattern the caller knows that there is no pattern, and no entry is read.
  template <bool kPattern = true>
  ATTNLAB_HD constexpr i32 run_end(i32 block) const {
    if (kPattern && entries != nullptr) return block + 1;
    if (block < full_begin) return min(full_begin, end);
    return block < full_end ? min(full_end, end) : end;
  }
  // Returns the first tile of the run that ends with `block`, in the same sense.
  template <bool kPattern = true>
  ATTNLAB_HD constexpr i32 run_begin(i32 block) const {
    if (kPattern && entries != nullptr) return block;
    if (block >= full_end) return max(full_end, begin);
    return block >= full_begin ? max(full_begin, begin) : begin;
  }
  template <bool kPattern = true>
  ATTNLAB_HD constexpr bool is_partial(i32 block) const {
    if (kPattern && entries != nullptr) return entries[block].is_partial();
    return block < full_begin || block >= full_end;
  }
};

ATTNLAB_HD constexpr TileSpan make_span(Range all, Range full, const TileEntry* entries) {
  TileSpan span = {.begin = static_cast<i32>(all.begin),
                   .end = static_cast<i32>(all.end),
                   .full_begin = static_cast<i32>(full.begin),
                   .full_end = static_cast<i32>(full.end),
                   .entries = entries};
  span.begin = span.not_empty(span.begin);
  return span;
}

// TileOrder says in which order the entries of tiles lie: those of a tile of rows one after the
// other, or those of a tile of keys.
enum class TileOrder : i32 { rows_first, keys_first };

}  // namespace attnlab
