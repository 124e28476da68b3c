// Walks the steps of a backward whose work items are tiles of keys (v2, v3).
#pragma once

#include "kernels/shared/tile_span.h"

namespace attnlab::device {

// BackwardStep is what a step works on: a tile of rows of a query head that shares the item's K and
// V. `Item` has the `tiles` of rows that see its keys, and the number of these `heads`.
struct BackwardStep {
  i32 m_block = 0;
  i32 head = 0;

  template <class Item>
  static __device__ BackwardStep first(const Item& item) {
    return {item.tiles.begin, item.tiles.begin < item.tiles.end ? 0 : item.heads};
  }
  template <class Item>
  __device__ bool exists(const Item& item) const {
    return head < item.heads;
  }
  template <class Item>
  __device__ void advance(const Item& item) {
    m_block = item.tiles.not_empty(m_block + 1);
    if (m_block < item.tiles.end) return;
    m_block = item.tiles.begin;
    ++head;
  }
};

}  // namespace attnlab::device
