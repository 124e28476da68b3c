// Implements what naive does on a GPU around its forward where the problem is in e4m3: codes become
// values in fp32, which the passes and the library's products take, and O is rounded behind them.
#pragma once

#include "kernels/naive/passes.cuh"
#include "kernels/shared/quantise.h"

namespace attnlab::naive {

// Writes value = code * scale. A block has the kScaleRows rows of one head that share a scale.
__device__ inline void decode_codes(const Params& params, const Codes& of) {
  const Shape& shape = params.shape;
  const u32 heads = static_cast<u32>(of.is_query ? shape.num_heads_q : shape.num_heads_kv);
  const u32 blocks =
      static_cast<u32>(ceil_div(of.is_query ? shape.seqlen_q : shape.seqlen_k, kScaleRows));
  const i64 block = blockIdx.x % blocks, slice = blockIdx.x / blocks;
  const i64 b = slice / heads, h = slice % heads;
  const BatchEntry entry = batch_entry(params, b);
  const Strides& strides = of.is_query ? shape.q : shape.k;
  const i64 first = of.is_query ? entry.first_row : entry.first_key;
  const i64 end =
      min(of.is_query ? entry.mask.seqlen_q : entry.mask.seqlen_k, (block + 1) * kScaleRows);
  for (i64 row = block * kScaleRows; row < end; ++row) {
    const i64 offset = strides.offset(b, h, first + row);
    for (i64 column = threadIdx.x; column < shape.head_dim; column += kBlockThreads) {
      const float scale =
          of.scales[of.has_channels ? slice * shape.head_dim + column : slice * blocks + block];
      of.values[offset + column] = f32_from_e4m3(of.codes[offset + column]) * scale;
    }
  }
}

}  // namespace attnlab::naive
