// Products of a warp on tensor cores: pieces of 16x16 from shared memory or registers, sums in
// fp32. The layout of a lane's part is that of kernels/ptx/mma.cuh.
#pragma once

#include "kernels/device/shared_tile.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/st.cuh"

namespace attnlab::device {

// (16 * kRows, 8 * kColumns) fp32. Of block (r, c) at[r][c] holds rows 16r + g and, in its second
// half, 16r + g + 8, columns 8c + 2t and 8c + 2t + 1.
template <i32 kRows, i32 kColumns>
struct Sums {
  float at[kRows][kColumns][4];

  __device__ void clear() {
#pragma unroll
    for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
      for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
        for (i32 i = 0; i < 4; ++i) at[r][c][i] = 0.0f;
      }
    }
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
      for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
        for (i32 i = 0; i < 4; ++i) at[r][c][i] *= factor;
      }
    }
  }
};

// A 16x16 piece of a left factor.
struct LeftPiece {
  u32 pairs[4];
};

// A 16x16 piece of a right factor: two blocks of 8 columns, of each the upper and the lower half.
struct RightPiece {
  u32 pairs[4];
};

// Tiles that hold a factor as it is, and tiles that hold it transposed.
template <TileShape kTile>
using LeftPieces = Pieces<kTile, Quarters::by_columns>;
template <TileShape kTile>
using LeftPiecesTransposed = Pieces<kTile, Quarters::by_rows>;
template <TileShape kTile>
using RightPieces = Pieces<kTile, Quarters::by_columns>;
template <TileShape kTile>
using RightPiecesTransposed = Pieces<kTile, Quarters::by_rows>;

// (row, column) is the place in the factor.
template <TileShape kTile>
__device__ LeftPiece left_piece(const LeftPieces<kTile>& tile, i32 row, i32 column) {
  LeftPiece piece;
  ptx::ldmatrix_x4(piece.pairs, tile.address(row, column));
  return piece;
}
template <TileShape kTile>
__device__ LeftPiece left_piece(const LeftPiecesTransposed<kTile>& tile, i32 row, i32 column) {
  LeftPiece piece;
  ptx::ldmatrix_x4_trans(piece.pairs, tile.address(column, row));
  return piece;
}
template <TileShape kTile>
__device__ RightPiece right_piece(const RightPieces<kTile>& tile, i32 row, i32 column) {
  RightPiece piece;
  ptx::ldmatrix_x4_trans(piece.pairs, tile.address(row, column));
  return piece;
}
template <TileShape kTile>
__device__ RightPiece right_piece(const RightPiecesTransposed<kTile>& tile, i32 row, i32 column) {
  RightPiece piece;
  ptx::ldmatrix_x4(piece.pairs, tile.address(column, row));
  return piece;
}

// A left factor from sums: blocks (r, 2c) and (r, 2c + 1), rounded.
template <class T, i32 kRows, i32 kColumns>
__device__ LeftPiece left_piece(const Sums<kRows, kColumns>& sums, i32 r, i32 c) {
  const float(&left)[4] = sums.at[r][2 * c];
  const float(&right)[4] = sums.at[r][2 * c + 1];
  return {T::pair(left[0], left[1]), T::pair(left[2], left[3]), T::pair(right[0], right[1]),
          T::pair(right[2], right[3])};
}

// With block 0 or 1 of a right factor.
__device__ inline void mma(F16, float (&sums)[4], const LeftPiece& left, const RightPiece& right,
                           i32 block) {
  ptx::mma_m16n8k16_f32_f16(sums, left.pairs, right.pairs[2 * block], right.pairs[2 * block + 1]);
}
__device__ inline void mma(Bf16, float (&sums)[4], const LeftPiece& left, const RightPiece& right,
                           i32 block) {
  ptx::mma_m16n8k16_f32_bf16(sums, left.pairs, right.pairs[2 * block], right.pairs[2 * block + 1]);
}

// sums += left right, over kSteps pieces of 16. left(r, k) and right(k, c) give the pieces of rows
// 16r and columns 16c.
template <class T, i32 kSteps, i32 kRows, i32 kColumns, class Left, class Right>
__device__ void multiply_add(Sums<kRows, kColumns>& sums, const Left& left, const Right& right) {
  static_assert(kColumns % 2 == 0, "right factors come 16 columns at a time");
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    LeftPiece lefts[kRows];
#pragma unroll
    for (i32 r = 0; r < kRows; ++r) lefts[r] = left(r, k);
#pragma unroll
    for (i32 c = 0; c < kColumns / 2; ++c) {
      const RightPiece rights = right(k, c);
#pragma unroll
      for (i32 r = 0; r < kRows; ++r) {
        mma(T{}, sums.at[r][2 * c], lefts[r], rights, 0);
        mma(T{}, sums.at[r][2 * c + 1], lefts[r], rights, 1);
      }
    }
  }
}

// Writes sums, rounded, to a tile; (row, column), multiples of 16, is where its first element goes.
template <class T, TileShape kTile, i32 kRows, i32 kColumns>
__device__ void store_sums(const Sums<kRows, kColumns>& sums, u32 tile, i32 row, i32 column) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const u32 first = tile + static_cast<u32>((row + lane / 4) * kTile.row_bytes() + lane % 4 * 4);
  u32 turned = static_cast<u32>(kTile.turn(lane / 4) * kChunkBytes);  // also of rows 8 further on
  asm volatile("" : "+r"(turned));                                    // as in Pieces
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
    const u32 place = first + (turned ^ static_cast<u32>((column / kChunk + c) * kChunkBytes));
#pragma unroll
    for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
      for (i32 half = 0; half < 2; ++half) {
        ptx::st_shared_u32(place + static_cast<u32>((16 * r + 8 * half) * kTile.row_bytes()),
                           T::pair(sums.at[r][c][2 * half], sums.at[r][c][2 * half + 1]));
      }
    }
  }
}

}  // namespace attnlab::device
