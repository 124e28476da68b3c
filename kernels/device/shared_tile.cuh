// Handles tiles of 16-bit values in shared memory: how they lie there, how they come and go, and
// how a warp reads fragments of 16x16 from them.
//
// Rows follow one another; within a row the 16-byte chunks are permuted by the row, so that the
// eight rows of a chunk column, which one ldmatrix phase reads, lie in all banks. The permutation
// is an exclusive or inside groups of 8 chunks (128 bytes), or of 4 or 2 where rows are shorter,
// with the bits of the row that choose among lines of 128 bytes.
#pragma once

#include "kernels/device/storage.cuh"
#include "kernels/device/team.cuh"
#include "kernels/ptx/cp_async.cuh"
#include "kernels/ptx/cvta.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/shared/base.h"
#include "kernels/shared/tile.h"

namespace attnlab::device {

// Starts copies of `rows` rows from gRows on to the tile at address `tile`, by kThreads threads, of
// which this is number `thread`; the other rows of the tile, and columns past head_dim (a multiple
// of 8), become zero. Every thread has its chunks in one column of each group, neighbours in memory
// by neighbouring threads.
template <TileShape kTile, i32 kThreads, class T>
__device__ void load_tile(const T* gRows, i64 row_stride, i32 rows, i32 head_dim, u32 tile,
                          i32 thread = static_cast<i32>(threadIdx.x)) {
  constexpr i32 kGroup = kTile.swizzle_chunks();
  constexpr i32 kGroups = kTile.chunks() / kGroup;
  constexpr i32 kRowsOfPass = kThreads / kGroup;
  asm volatile("" : "+r"(thread));  // else addresses stay in registers throughout
  const i32 first_row = thread / kGroup;
  const i32 first_chunk = thread % kGroup;
  const T* from = gRows + first_row * row_stride + first_chunk * kChunk;
  u32 to = tile + static_cast<u32>(tile_offset(kTile, first_row, first_chunk));
#pragma unroll
  for (i32 pass = 0; pass < ceil_div(kTile.rows, kRowsOfPass); ++pass) {
    const i32 row = first_row + pass * kRowsOfPass;
    if (kTile.rows % kRowsOfPass == 0 || row < kTile.rows) {
#pragma unroll
      for (i32 group = 0; group < kGroups; ++group) {
        const bool exists = row < rows && (group * kGroup + first_chunk) * kChunk < head_dim;
        ptx::cp_async_cg_16(to + static_cast<u32>(group * kGroup * kChunkBytes),
                            from + group * kGroup * kChunk, exists ? 16 : 0);
      }
    }
    from += kRowsOfPass * row_stride;
    if constexpr (kRowsOfPass % 8 == 0) {  // the swizzle does not change from pass to pass
      to += static_cast<u32>(kRowsOfPass * kTile.row_bytes());
    } else {
      to = tile + static_cast<u32>(tile_offset(kTile, row + kRowsOfPass, first_chunk));
    }
  }
}

// MatrixOrder says how ldmatrix orders a fragment's four 8x8 matrices. mma.sync wants them in
// consecutive registers, and the order that does it depends on whether the tile holds A or B,
// K-major or MN-major (warp_product.cuh): in the other one every register would be copied once.
enum class MatrixOrder { by_columns, by_rows };  // left column first, or upper row first

// PairOrder says whether fragments 2i and 2i + 1 of a row of fragments are swapped.
enum class PairOrder { in_order, swapped };

// LdmatrixTile has a lane's addresses for ldmatrix. There is one for each pair of chunks that the
// swizzle tells apart; all else is a constant that ldmatrix adds by itself.
template <TileShape kTile, MatrixOrder kOrder>
class LdmatrixTile {
 public:
  // Starts from (row, column) of the tile at address `tile`, multiples of 16.
  __device__ LdmatrixTile(u32 tile, i32 row, i32 column, PairOrder order = PairOrder::in_order) {
    const i32 lane = opaque_lane();
    constexpr bool kByColumns = kOrder == MatrixOrder::by_columns;
    const i32 own_row = kByColumns ? lane % 16 : lane / 16 * 8 + lane % 8;
    const i32 right = kByColumns ? lane / 16 : lane / 8 % 2;
    const u32 first = tile + static_cast<u32>(row * kTile.row_bytes()) +
                      static_cast<u32>(own_row * kTile.row_bytes());
    const i32 swapped = order == PairOrder::swapped ? 2 : 0;  // a fragment has two chunks
    const u32 swizzled = static_cast<u32>((kTile.swizzle(own_row) ^ right ^ swapped) * kChunkBytes);
#pragma unroll
    for (i32 i = 0; i < kAddresses; ++i) {
      const i32 chunk = column / kChunk + 2 * i;
      addresses_[i] = first + (swizzled ^ static_cast<u32>(chunk * kChunkBytes));
      // Hides the address: else the compiler keeps one for each fragment in a register of its own.
      asm volatile("" : "+r"(addresses_[i]));
    }
  }

  // Returns the address of the fragment that begins (row, column) from there, multiples of 16.
  __device__ u32 address(i32 row, i32 column) const {
    constexpr i32 kGroup = kTile.swizzle_chunks();
    const i32 chunk = column / kChunk;
    return addresses_[chunk % kGroup / 2] +
           static_cast<u32>(row * kTile.row_bytes() + chunk / kGroup * kGroup * kChunkBytes);
  }

 private:
  static constexpr i32 kAddresses = kTile.swizzle_chunks() / 2;
  u32 addresses_[kAddresses];
};

// Stores `rows` rows of a tile, at most kRows, from `first_row` on, by a warp, to as many rows in
// global memory.
template <TileShape kTile, i32 kRows, class T>
__device__ void store_rows(const u8* sTile, i32 first_row, i32 rows, T* gRows, i64 row_stride,
                           i32 head_dim) {
  constexpr i32 kGroup = kTile.swizzle_chunks();
  constexpr i32 kRowsOfPass = kWarp / kGroup;
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const i32 own_row = lane / kGroup, own_chunk = lane % kGroup;
  T* to = gRows + own_row * row_stride + own_chunk * kChunk;
#pragma unroll 1
  for (i32 pass = 0; pass < ceil_div(kRows, kRowsOfPass); ++pass) {
    const i32 row = own_row + pass * kRowsOfPass;
    if (row >= rows) break;
#pragma unroll
    for (i32 chunk = own_chunk; chunk < kTile.chunks(); chunk += kGroup) {
      if (chunk * kChunk >= head_dim) break;
      *reinterpret_cast<uint4*>(to + (chunk - own_chunk) * kChunk) =
          *reinterpret_cast<const uint4*>(sTile + tile_offset(kTile, first_row + row, chunk));
    }
    to += kRowsOfPass * row_stride;
  }
}

}  // namespace attnlab::device
