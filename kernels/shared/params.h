// Holds what a GPU kernel gets of a problem, by value: sizes, the bounds of the mask, dropout, and
// where in device memory the lengths and the block pattern lie.
#pragma once

#include "kernels/shared/dropout.h"
#include "kernels/shared/mask.h"
#include "kernels/shared/shape.h"

namespace attnlab {

struct Params {
  Shape shape;
  Dropout dropout;
  i64 left = -1;  // of the band, see mask.h
  i64 right = -1;
  BlockPattern blocks;
  const i32* keys = nullptr;          // (batch), with padding
  const i32* cu_seqlens_q = nullptr;  // (batch + 1), packed
  const i32* cu_seqlens_k = nullptr;  // (batch + 1), packed
};

// BatchEntry has a batch entry's mask, over its own rows and keys, and its begin in packed tensors.
struct BatchEntry {
  Mask mask;
  i64 first_row = 0;  // of q, o, dO, dQ; 0 unless packed
  i64 first_key = 0;  // of k, v, dK, dV
};

ATTNLAB_HD constexpr BatchEntry batch_entry(const Params& params, i64 b) {
  BatchEntry entry = {.mask = {.seqlen_q = params.shape.seqlen_q,
                               .seqlen_k = params.shape.seqlen_k,
                               .left = params.left,
                               .right = params.right,
                               .valid_k = params.shape.seqlen_k,
                               .blocks = params.blocks}};
  if (params.keys != nullptr) entry.mask.valid_k = params.keys[b];
  if (params.cu_seqlens_q != nullptr) {
    entry.first_row = params.cu_seqlens_q[b];
    entry.first_key = params.cu_seqlens_k[b];
    entry.mask.seqlen_q = params.cu_seqlens_q[b + 1] - entry.first_row;
    entry.mask.seqlen_k = params.cu_seqlens_k[b + 1] - entry.first_key;
    entry.mask.valid_k = entry.mask.seqlen_k;
  }
  return entry;
}

}  // namespace attnlab
