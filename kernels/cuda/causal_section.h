// v2's and v3's forward share this: the order of their work under a causal mask.
#pragma once

#include "kernels/shared/shape.h"
#include "kernels/shared/work_grid.h"

namespace attnlab::cuda {

// Returns WorkGrid::section of a causal forward. The tiles of the slices in a section are
// interleaved: the last tile of each slice, then the one before it of each, and so on. Long
// sequences are bound by products, so what counts is that no multiprocessor ends early: many slices
// are in a section, though an L2 of 40 or 50 MiB does not keep all of their K and V beside what
// else passes through it. Short ones are bound by DRAM, and with so many slices they read K and V
// from it again: 283 MB instead of 201 at head dim 128 and 512 keys (counters on an H100, 16384
// tokens, hidden 2048).
//
// 16 KiB a key fits what was measured: of sections of 8, 16 and 32 MiB none was faster than 8 at
// 512 keys, 16 at 1024 and 32 at 2048 (kernels/v3/TUNING.md, version 23).
inline i64 causal_section(const Shape& shape) {
  constexpr i64 kMost = i64{32} << 20, kLeast = i64{8} << 20, kOfKey = i64{16} << 10;
  const i64 bytes = min(kMost, max(kLeast, kOfKey * shape.seqlen_k));
  const i64 slices = section_size(bytes, shape.seqlen_k * shape.head_dim * 2 * 2, shape.sharing());
  return min(slices, shape.batch * shape.num_heads_q);
}

}  // namespace attnlab::cuda
