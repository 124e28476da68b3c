// Which tiles a work item on a GPU passes over.
#pragma once

#include "kernels/shared/mask.h"

namespace attnlab {

// The tiles that a work item on a GPU passes over, in their order: of keys for a tile of query
// rows, or of query rows for a tile of keys. A window's borders are known beforehand; the classes
// under a block pattern are looked up.
struct TileSpan {
  i32 begin = 0;
  i32 end = 0;
  i32 full_begin = 0;  // without a pattern: tiles in [full_begin, full_end) are full
  i32 full_end = 0;
  const TileClass* classes = nullptr;  // with a pattern: of every tile

  // The first tile of `block`, block + stride, ... that is not empty; `end` or more: there is none.
  ATTNLAB_HD constexpr i32 not_empty(i32 block, i32 stride = 1) const {
    if (classes == nullptr) return block;
    while (block < end && classes[block] == TileClass::empty) block += stride;
    return block;
  }
  ATTNLAB_HD constexpr bool is_partial(i32 block) const {
    if (classes != nullptr) return classes[block] == TileClass::partial;
    return block < full_begin || block >= full_end;
  }
};

ATTNLAB_HD constexpr TileSpan make_span(Range all, Range full, const TileClass* classes) {
  TileSpan span = {.begin = static_cast<i32>(all.begin),
                   .end = static_cast<i32>(all.end),
                   .full_begin = static_cast<i32>(full.begin),
                   .full_end = static_cast<i32>(full.end),
                   .classes = classes};
  span.begin = span.not_empty(span.begin);
  return span;
}

// In which order the classes of tiles lie: those of a tile of rows one after the other, or those of
// a tile of keys.
enum class TileOrder : i32 { rows_first, keys_first };

}  // namespace attnlab
