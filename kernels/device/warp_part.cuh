// Gives a warp's part of a product that all warps of a block divide.
#pragma once

#include "kernels/device/team.cuh"
#include "kernels/device/warp_product.cuh"
#include "kernels/shared/warp_grid.h"

namespace attnlab::device {

// WarpPart is a warp's part of a matrix of kRows x kColumns that a grid of warps divides: all of a
// block, or those of one of its teams, each of which has such a matrix.
template <WarpGrid kGrid, i32 kRows, i32 kColumns, i32 kTeams = 1>
struct WarpPart {
  static_assert(kGrid.rows > 0, "no grid of these warps divides the tile into fragments of 16x16");
  static constexpr i32 kOwnRows = kRows / kGrid.rows;
  static constexpr i32 kOwnColumns = kColumns / kGrid.columns;
  using Accumulator = device::Accumulator<kOwnRows / 16, kOwnColumns / 8>;

  static __device__ i32 warp() {
    const i32 warp = static_cast<i32>(threadIdx.x) / kWarp;
    return kTeams == 1 ? warp : warp % (kGrid.rows * kGrid.columns);
  }
  // Return where it begins.
  static __device__ i32 row() { return warp() / kGrid.columns * kOwnRows; }
  static __device__ i32 column() { return warp() % kGrid.columns * kOwnColumns; }
};

// TransposedScoresPart is a warp's part of scores that a backward keeps transposed, keys x query
// rows: S^T, dP^T. Its sizes are functions since constants of a class become data of every unit.
template <WarpGrid kGrid, i32 kKeys, i32 kQueryRows, i32 kTeams = 1>
struct TransposedScoresPart {
  using Part = WarpPart<kGrid, kKeys, kQueryRows, kTeams>;

  static __device__ constexpr i32 own_keys() { return Part::kOwnRows; }
  static __device__ constexpr i32 own_query_rows() { return Part::kOwnColumns; }
  static __device__ i32 first_key() { return Part::row(); }
  static __device__ i32 first_query_row() { return Part::column(); }
};

// Adds to sums A B, the warp's part of the product of the tiles at `left` and `right`.
template <class Part, class T, TileShape kLeft, TileShape kRight>
__device__ void multiply_add_part(typename Part::Accumulator& sums, u32 left, u32 right) {
  const KMajorA<kLeft> a(left, Part::row(), 0);
  const MnMajorB<kRight> b(right, 0, Part::column());
  multiply_add_tiles<T, kLeft.columns / 16>(sums, a, b);
}

// Returns where a lane's four values of block (r, c) lie, in fp32, in memory that has the
// accumulator of a whole tile in the order of its registers: a warp moves 512 consecutive bytes
// with one instruction.
template <class Part>
__device__ i32 accumulator_offset(i32 r, i32 c) {
  constexpr i32 kColumns = Part::kOwnColumns / 8;
  constexpr i32 kBlocks = Part::kOwnRows / 16 * kColumns;
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  return ((Part::warp() * kBlocks + r * kColumns + c) * kWarp + lane) * 4;
}

// Calls use(sum, place) for each four values of a lane, and their place there.
template <class Part, class Sums, class Use>
__device__ void for_places(Sums& sums, const Use& use) {
  for_blocks<Part::kOwnRows / 16, Part::kOwnColumns / 8>(
      [&](i32 r, i32 c) { use(sums.at[r][c], accumulator_offset<Part>(r, c)); });
}

}  // namespace attnlab::device
