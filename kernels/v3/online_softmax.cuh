// Does the online softmax of v3's consumers: S becomes P in registers, and O follows the maximum.
#pragma once

#include "kernels/device/softmax.cuh"
#include "kernels/device/warp_uniform.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/shared/quantise.h"
#include "kernels/shared/softmax.h"

namespace attnlab::v3 {

// Finds the largest of each of a lane's two rows, in all of the row's four lanes, of what the lane
// found in its own columns: two values a row. larger() returns the larger one of two.
template <class T, class Larger>
__device__ void largest_of_rows(const T (&own)[4], T (&rows)[2], const Larger& larger) {
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    T& row = rows[half];
    row = larger(own[2 * half], own[2 * half + 1]);
    row = larger(row, __shfl_xor_sync(0xFFFFFFFFu, row, 2));
    row = larger(row, __shfl_xor_sync(0xFFFFFFFFu, row, 1));
  }
}

// Returns the largest score of each of a lane's two rows, in all of the row's four lanes. Each row
// has two running maxima: beside two warps a scheduler has nothing to do while a maximum waits for
// the one before.
template <i32 kColumns>
__device__ void row_maxima(const device::Accumulator<1, kColumns>& rS, float (&maxima)[2]) {
  float largest[4] = {-kInfinity, -kInfinity, -kInfinity, -kInfinity};
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) largest[i] = fmaxf(largest[i], rS.at[0][c][i]);
  }
  largest_of_rows(largest, maxima, [](float a, float b) { return fmaxf(a, b); });
}

// Finds a row's largest score as row_maxima() does, but compares scores as integers, three at a
// time (VIMNMX3 of sm_90): half as many instructions. Bits of floats that are not negative are
// ordered as these are, and above those of all negative ones. Where a result is negative, all
// scores are, and it is the bits of any of them.
template <i32 kColumns>
__device__ void row_maxima_of_bits(const device::Accumulator<1, kColumns>& rS, i32 (&maxima)[2]) {
  constexpr i32 kLeast = -2147483647 - 1;
  i32 largest[4] = {kLeast, kLeast, kLeast, kLeast};
#pragma unroll
  for (i32 c = 0; c < kColumns; c += 2) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      const i32 one = bit_cast<i32>(rS.at[0][c][i]), other = bit_cast<i32>(rS.at[0][c + 1][i]);
      largest[i] = max(max(largest[i], one), other);
    }
  }
  largest_of_rows(largest, maxima, [](i32 a, i32 b) { return max(a, b); });
}

// Finds the maxima of a lane's two rows of a tile, in scaled units, by row_maxima_of_bits(). One
// below 0 is said to be 0: that raises no reference that it would not raise itself, unless this is
// below -slack; then the warp looks again. between() is called before that, since products that are
// in flight allow no branch.
template <i32 kColumns, class Between>
__device__ void maxima_by_bits(float scale, float slack, const OnlineSoftmax (&rows)[2],
                               const device::Accumulator<1, kColumns>& rS, float (&maxima)[2],
                               const Between& between) {
  i32 bits[2];
  row_maxima_of_bits(rS, bits);
  between();
  bool looks_again = false;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    maxima[half] = bit_cast<float>(max(bits[half], 0));
    looks_again = looks_again || (bits[half] < 0 && rows[half].max < -slack);
  }
  if (device::any_of_warp(looks_again)) row_maxima(rS, maxima);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) maxima[half] *= scale;
}

// Turns scores into exp2(scale * score - reference). Returns whether the reference of any row of
// the warp was raised: O must then be rescaled by `factors`. It takes no branch, since products are
// in flight, and the warp's vote comes after the exponentials. The maximum of a
// row is the same in its four lanes, the sum is over the lane's own columns until the end.
// kIsMasked: rows may see nothing of the tile. kByBits: maxima are found by maxima_by_bits(), and
// between() ends what is in flight. It is called before the exponentials.
template <bool kIsMasked, bool kByBits, i32 kColumns, class Between>
__device__ bool softmax_step(float scale, OnlineSoftmax (&rows)[2],
                             device::Accumulator<1, kColumns>& rS, float (&factors)[2],
                             const Between& between) {
  float tile_max[2];
  if constexpr (kByBits) {
    maxima_by_bits(scale, device::kSlack, rows, rS, tile_max, between);
  } else {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) tile_max[half] = device::row_maximum(rS, 0, half) * scale;
    between();
  }
  bool raises = false;
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    OnlineSoftmax& row = rows[half];
    const float old_max = row.max;
    const bool is_raised = tile_max[half] > old_max + device::kSlack;
    raises = raises || is_raised;
    row.max = is_raised ? tile_max[half] : old_max;
    const float reference = kIsMasked ? finite_max(row.max) : row.max;
    factors[half] = ptx::ex2_approx_ftz_f32(old_max - reference);
    row.sum = row.sum * factors[half] + device::exponentiate_row(rS, 0, half, scale, reference);
  }
  return device::any_of_warp(raises);
}

// Turns scores of a lane's two rows, those of `columns`, by eights, into
// exp2(scale * score - reference) and returns their sums over the lane's own columns: two running
// sums a row, as above.
template <i32 kColumns>
__device__ void exponentiate_rows(device::Accumulator<1, kColumns>& rS, Range columns, float scale,
                                  const float (&references)[2], float (&sums)[2]) {
  float partial[4] = {};
#pragma unroll
  for (i64 c = columns.begin; c < columns.end; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& score = rS.at[0][c][i];
      score = ptx::ex2_approx_ftz_f32(fmaf(score, scale, -references[i / 2]));
      partial[i] += score;
    }
  }
#pragma unroll
  for (i32 half = 0; half < 2; ++half) sums[half] = partial[2 * half] + partial[2 * half + 1];
}

// TileReferences is what a tile's exponentials are relative to, and what that does to O.
struct TileReferences {
  float references[2];  // of a lane's two rows, in scaled units
  float factors[2];     // O and the sums so far are multiplied with them
  bool raises;          // whether the reference of any row of the warp was raised
};

// Finds the maxima of a tile's scores. On e4m3 P is shifted by 2^kShiftOfP, and maxima are compared
// in scaled units, so that `scale` may differ from tile to tile. kLags: the reference may lag
// behind a row's maximum by kSlackOfP; else exponentials follow the warp's vote: fewer registers.
// kIsMasked: rows may see nothing of the tile. between() is called before the votes.
template <bool kIsMasked, bool kLags, i32 kColumns, class Between>
__device__ TileReferences raise_references(float scale, OnlineSoftmax (&rows)[2],
                                           const device::Accumulator<1, kColumns>& rS,
                                           const Between& between) {
  constexpr float kOwnSlack = kLags ? kSlackOfP : 0.0f;
  TileReferences tile;
  float tile_max[2];
  // Tiles of 192 keys win by integers, smaller ones do not (TUNING.md, e18).
  if constexpr (!kIsMasked && 8 * kColumns == 192) {
    maxima_by_bits(scale, kOwnSlack, rows, rS, tile_max, between);
  } else {
    row_maxima(rS, tile_max);
#pragma unroll
    for (i32 half = 0; half < 2; ++half) tile_max[half] *= scale;
    between();
  }
  const bool is_raised[2] = {tile_max[0] > rows[0].max + kOwnSlack,
                             tile_max[1] > rows[1].max + kOwnSlack};
  tile.raises = device::any_of_warp(is_raised[0] || is_raised[1]);
#pragma unroll
  for (i32 half = 0; half < 2; ++half) {
    OnlineSoftmax& row = rows[half];
    const float old_max = row.max;
    row.max = (kLags ? is_raised[half] : tile.raises) ? fmaxf(old_max, tile_max[half]) : old_max;
    const float reference = kIsMasked ? finite_max(row.max) : row.max;
    tile.factors[half] = ptx::ex2_approx_ftz_f32(old_max - reference);
    tile.references[half] = reference - kShiftOfP;
  }
  return tile;
}

// Multiplies each row by its factor.
template <i32 kColumns>
__device__ void scale_rows(device::Accumulator<1, kColumns>& rO, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) rO.at[0][c][i] *= factors[i / 2];
  }
}

// Rescales O to the new references of its rows. A factor of 0 gives 0 even of an infinite O, which
// a tile leaves whose maximum is large and negative (attend_again.cuh).
template <i32 kColumns>
__device__ void rescale_rows(device::Accumulator<1, kColumns>& rO, const float (&factors)[2]) {
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      float& o = rO.at[0][c][i];
      o = factors[i / 2] == 0.0f ? 0.0f : o * factors[i / 2];
    }
  }
}

}  // namespace attnlab::v3
