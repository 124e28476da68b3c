// Walks the steps of a backward whose work items are tiles of keys (v2, v3).
#pragma once

#include "kernels/shared/tile_span.h"

namespace attnlab::device {

// BackwardStep is what a step works on: a tile of rows of a query head that shares the item's K and
// V. `Item` has the `tiles` of rows that see its keys, and the number of these `heads`.
struct BackwardStep {
  i32 m_block = 0;
  i32 head = 0;

  // These walk up the tiles of each head, or down (kDown).
  template <bool kDown = false, class Item>
  static __device__ BackwardStep first(const Item& item) {
    return {first_block<kDown>(item), item.tiles.begin < item.tiles.end ? 0 : item.heads};
  }
  template <class Item>
  __device__ bool exists(const Item& item) const {
    return head < item.heads;
  }
  template <bool kDown = false, class Item>
  __device__ void advance(const Item& item) {
    m_block = item.tiles.template next<kDown>(m_block);
    if (kDown ? m_block >= item.tiles.begin : m_block < item.tiles.end) return;
    m_block = first_block<kDown>(item);
    ++head;
  }

 private:
  // Only the first tile that any row sees is known to be `begin`; the last one is looked up.
  template <bool kDown, class Item>
  static __device__ i32 first_block(const Item& item) {
    return kDown ? item.tiles.not_empty_before(item.tiles.end - 1) : item.tiles.begin;
  }
};

}  // namespace attnlab::device
