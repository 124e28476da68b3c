// Holds what the passes of both directions share: tiles of a matrix whose elements change each by
// itself, dropout, which is one of these changes (forward applies it to P, backward to P again and
// to dP), and rows that a team of threads shares.
#pragma once

#include "kernels/device/bits.h"
#include "kernels/device/storage.cuh"
#include "kernels/device/team.cuh"
#include "kernels/naive/schedule.h"
#include "kernels/shared/batch_addresses.h"
#include "kernels/shared/params.h"

namespace attnlab::naive {

using device::Values;

// RowPair says where a lane's two rows lie.
struct RowPair {
  i64 slice = 0;  // batch * num_heads_q + head
  i64 row = 0;    // and row + 8; row % 16 < 8
};

// Sets to = change(from): `change` gets the first of 8 columns, which both rows' values have. All
// lanes of a warp call it together.
template <class Change, class T>
__device__ void for_each_tile(const Params& params, const T* from, T* to) {
  const i32 warp = static_cast<i32>(threadIdx.x) / device::kWarp;
  const i32 lane = static_cast<i32>(threadIdx.x) % device::kWarp;
  const RowsPlace place = rows_place(params.shape, blockIdx.x, kTileRows, kTileColumns);
  const BatchEntry entry = batch_entry(params, place.batch);
  const RowPair rows = {.slice = place.batch * params.shape.num_heads_q + place.head,
                        .row = place.row + warp};
  if (rows.row >= entry.mask.seqlen_q) return;
  const bool has_second = rows.row + 8 < entry.mask.seqlen_q;

  const Strides strides = padded_strides(params.shape);
  const i64 first = strides.offset(place.batch, place.head, rows.row);
  const i64 second = first + 8 * strides.row;
  const i64 end = min(entry.mask.seqlen_k, place.column + kTileColumns);
  const Change change(params, entry.mask, rows);
  for (i64 step = place.column; step < end; step += kTileStep) {
    const i64 column = step + lane * kChunkColumns;
    const bool has_first = column < end;
    Values values[2] = {};  // (2, 8)
    if (has_first) values[0] = decode(device::load_chunk(from + first + column));
    if (has_first && has_second) values[1] = decode(device::load_chunk(from + second + column));
    change(column, values);
    if (has_first) store_chunk(device::encode<T>(values[0]), to + first + column);
    if (has_first && has_second) {
      store_chunk(device::encode<T>(values[1]), to + second + column);
    }
  }
}

// Drop gives keep_scale times the value, or 0 where dropout drops: also in place of an infinity.
class Drop {
 public:
  __device__ Drop(const Params& params, const Mask& /*mask*/, const RowPair& rows)
      : dropout_(params.dropout), rows_(rows) {}

  __device__ void operator()(i64 column, Values (&values)[2]) const {
    const device::KeptShare share = device::kept_share(dropout_, rows_.slice, rows_.row, column);
    const u32 kept = share.own | __shfl_xor_sync(0xFFFFFFFFu, share.neighbour, 1);
#pragma unroll
    for (i32 i = 0; i < 2; ++i) {
#pragma unroll
      for (i32 j = 0; j < kChunkColumns; ++j) {
        const bool is_kept = (kept >> (8 * i + j) & 1) != 0;
        values[i].at[j] = is_kept ? values[i].at[j] * dropout_.keep_scale : 0.0f;
      }
    }
  }

 private:
  const Dropout& dropout_;
  const RowPair& rows_;
};

// Computes gPd from gP, or changes dP in place.
template <class T>
__device__ void dropout_rows(const Params& params, const T* gP, T* gPd) {
  for_each_tile<Drop>(params, gP, gPd);
}

// TeamRow is the row that a team of threads shares, and the thread's place in the team.
struct TeamRow {
  i64 batch = 0;
  i64 head = 0;
  i64 row = 0;
  i64 thread = 0;
  Mask mask;
  i64 offset = 0;  // of the row in a matrix
  __device__ bool exists() const { return row < mask.seqlen_q; }
};

template <RowClass kClass>
__device__ TeamRow team_row(const Params& params) {
  const i32 thread = static_cast<i32>(threadIdx.x);
  const RowsPlace place =
      rows_place(params.shape, blockIdx.x, kClass.rows(), params.shape.seqlen_k);
  const i64 row = place.row + thread / kClass.threads;
  return {.batch = place.batch,
          .head = place.head,
          .row = row,
          .thread = thread % kClass.threads,
          .mask = batch_entry(params, place.batch).mask,
          .offset = padded_strides(params.shape).offset(place.batch, place.head, row)};
}

// Rounds sums in fp32: over query heads to dK or dV, and in e4m3 to O.
template <class T>
__device__ void round_sums(const float* gSums, T* gResult, i64 elements) {
  const i64 index = i64{1} * blockIdx.x * kBlockThreads + threadIdx.x;
  if (index < elements) device::store_value(gSums[index], gResult + index);
}

// Writes where a batch's products begin: all left factors, all right ones, all results.
__device__ inline void batch_addresses(const BatchAddresses& batch, u64* gAddresses) {
  const i64 count = batch.count();
  const i64 i = i64{1} * blockIdx.x * kBlockThreads + threadIdx.x;
  if (i >= count) return;
  const i64 group = i / batch.batch, index = i % batch.batch;
  gAddresses[i] = batch.left.of(group, index);
  gAddresses[count + i] = batch.right.of(group, index);
  gAddresses[2 * count + i] = batch.result.of(group, index);
}

}  // namespace attnlab::naive
