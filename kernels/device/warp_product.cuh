// Multiplies on tensor cores by a warp (mma.sync): fragments of 16x16 from shared memory or
// registers, accumulators in fp32. The layout of a lane's part is that of kernels/ptx/mma.cuh.
#pragma once

#include "kernels/device/shared_tile.cuh"
#include "kernels/ptx/mma.cuh"
#include "kernels/ptx/st.cuh"

namespace attnlab::device {

// Calls use(r, c) for each block of 16x8 of kRows x kColumns of them.
template <i32 kRows, i32 kColumns, class Use>
__device__ void for_blocks(const Use& use) {
#pragma unroll
  for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
    for (i32 c = 0; c < kColumns; ++c) use(r, c);
  }
}

// Calls use(r, half) for each of a lane's rows, two of 16: half 0 or 1 of the 16 rows r.
template <i32 kRows, class Use>
__device__ void for_own_rows(const Use& use) {
#pragma unroll
  for (i32 r = 0; r < kRows; ++r) {
#pragma unroll
    for (i32 half = 0; half < 2; ++half) use(r, half);
  }
}

// Accumulator is (16 * kRows, 8 * kColumns) fp32. Of block (r, c) at[r][c] holds rows 16r + g and,
// in its second half, 16r + g + 8, columns 8c + 2t and 8c + 2t + 1.
template <i32 kRows, i32 kColumns>
struct Accumulator {
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
  __device__ void scale_row(i32 r, i32 half, float factor) {
#pragma unroll
    for (i32 c = 0; c < kColumns; ++c) {
      at[r][c][2 * half] *= factor;
      at[r][c][2 * half + 1] *= factor;
    }
  }
};

// FragmentA is a fragment A of 16x16.
struct FragmentA {
  u32 pairs[4];
};

// FragmentB is a fragment B of 16x16: two blocks of 8 columns, each an upper and a lower half.
struct FragmentB {
  u32 pairs[4];
};

// Name tiles of A (m x k) and B (k x n) in shared memory by what runs along their rows:
//
//   KMajorA   rows m, columns k
//   MnMajorA  rows k, columns m, read with .trans
//   KMajorB   rows n, columns k
//   MnMajorB  rows k, columns n, read with .trans
template <TileShape kTile>
using KMajorA = LdmatrixTile<kTile, MatrixOrder::by_columns>;
template <TileShape kTile>
using MnMajorA = LdmatrixTile<kTile, MatrixOrder::by_rows>;
template <TileShape kTile>
using KMajorB = LdmatrixTile<kTile, MatrixOrder::by_rows>;
template <TileShape kTile>
using MnMajorB = LdmatrixTile<kTile, MatrixOrder::by_columns>;

// Loads a fragment; (row, column) is its first element in A or B.
template <TileShape kTile>
__device__ FragmentA fragment_a(const KMajorA<kTile>& tile, i32 row, i32 column) {
  FragmentA piece;
  ptx::ldmatrix_x4(piece.pairs, tile.address(row, column));
  return piece;
}
template <TileShape kTile>
__device__ FragmentA fragment_a(const MnMajorA<kTile>& tile, i32 row, i32 column) {
  FragmentA piece;
  ptx::ldmatrix_x4_trans(piece.pairs, tile.address(column, row));
  return piece;
}
template <TileShape kTile>
__device__ FragmentB fragment_b(const MnMajorB<kTile>& tile, i32 row, i32 column) {
  FragmentB piece;
  ptx::ldmatrix_x4_trans(piece.pairs, tile.address(row, column));
  return piece;
}
template <TileShape kTile>
__device__ FragmentB fragment_b(const KMajorB<kTile>& tile, i32 row, i32 column) {
  FragmentB piece;
  ptx::ldmatrix_x4(piece.pairs, tile.address(column, row));
  return piece;
}

// Makes a fragment A of an accumulator: blocks (r, 2c) and (r, 2c + 1), rounded.
template <class T, i32 kRows, i32 kColumns>
__device__ FragmentA fragment_a(const Accumulator<kRows, kColumns>& sums, i32 r, i32 c) {
  const float(&left)[4] = sums.at[r][2 * c];
  const float(&right)[4] = sums.at[r][2 * c + 1];
  return {T::pair(left[0], left[1]), T::pair(left[2], left[3]), T::pair(right[0], right[1]),
          T::pair(right[2], right[3])};
}

// Multiplies with block 0 or 1 of a fragment B.
__device__ inline void mma(F16, float (&sums)[4], const FragmentA& left, const FragmentB& right,
                           i32 block) {
  ptx::mma_m16n8k16_f32_f16(sums, left.pairs, right.pairs[2 * block], right.pairs[2 * block + 1]);
}
__device__ inline void mma(Bf16, float (&sums)[4], const FragmentA& left, const FragmentB& right,
                           i32 block) {
  ptx::mma_m16n8k16_f32_bf16(sums, left.pairs, right.pairs[2 * block], right.pairs[2 * block + 1]);
}

// Computes sums += A B over kSteps steps of 16. left(r, k) and right(k, c) give the fragments of
// rows 16r and columns 16c.
template <class T, i32 kSteps, i32 kRows, i32 kColumns, class Left, class Right>
__device__ void multiply_add(Accumulator<kRows, kColumns>& sums, const Left& left,
                             const Right& right) {
  static_assert(kColumns % 2 == 0, "fragments B have 16 columns");
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    FragmentA lefts[kRows];
#pragma unroll
    for (i32 r = 0; r < kRows; ++r) lefts[r] = left(r, k);
#pragma unroll
    for (i32 c = 0; c < kColumns / 2; ++c) {
      const FragmentB rights = right(k, c);
#pragma unroll
      for (i32 r = 0; r < kRows; ++r) {
        mma(T{}, sums.at[r][2 * c], lefts[r], rights, 0);
        mma(T{}, sums.at[r][2 * c + 1], lefts[r], rights, 1);
      }
    }
  }
}

// Computes sums += A B of tiles, from the first element of `left` and of `right` on.
template <class T, i32 kSteps, i32 kRows, i32 kColumns, TileShape kLeft, MatrixOrder kLeftOrder,
          TileShape kRight, MatrixOrder kRightOrder>
__device__ void multiply_add_tiles(Accumulator<kRows, kColumns>& sums,
                                   const LdmatrixTile<kLeft, kLeftOrder>& left,
                                   const LdmatrixTile<kRight, kRightOrder>& right) {
  multiply_add<T, kSteps>(
      sums, [&](i32 r, i32 k) { return fragment_a(left, 16 * r, 16 * k); },
      [&](i32 k, i32 c) { return fragment_b(right, 16 * k, 16 * c); });
}

// Computes sums += A B of an accumulator, rounded, and a tile.
template <class T, i32 kRows, i32 kColumns, i32 kSteps, TileShape kRight, MatrixOrder kRightOrder>
__device__ void multiply_add_rounded(Accumulator<kRows, kColumns>& sums,
                                     const Accumulator<kRows, kSteps>& left,
                                     const LdmatrixTile<kRight, kRightOrder>& right) {
  multiply_add<T, kSteps / 2>(
      sums, [&](i32 r, i32 k) { return fragment_a<T>(left, r, k); },
      [&](i32 k, i32 c) { return fragment_b(right, 16 * k, 16 * c); });
}

// Computes sums = A B of two K-major tiles, at `left` and `right`, from a row of each on.
template <class T, TileShape kLeft, TileShape kRight, i32 kRows, i32 kColumns>
__device__ void multiply_k_major(Accumulator<kRows, kColumns>& sums, u32 left, i32 left_row,
                                 u32 right, i32 right_row) {
  const KMajorA<kLeft> a(left, left_row, 0);
  const KMajorB<kRight> b(right, right_row, 0);
  sums.clear();
  multiply_add_tiles<T, kLeft.columns / 16>(sums, a, b);
}

// Writes an accumulator, rounded, to a tile; (row, column), multiples of 16, is where its first
// element goes.
template <class T, TileShape kTile, i32 kRows, i32 kColumns>
__device__ void store_accumulator(const Accumulator<kRows, kColumns>& sums, u32 tile, i32 row,
                                  i32 column) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const u32 first = tile + static_cast<u32>((row + lane / 4) * kTile.row_bytes() + lane % 4 * 4);
  u32 swizzled =
      static_cast<u32>(kTile.swizzle(lane / 4) * kChunkBytes);  // also of rows 8 further on
  asm volatile("" : "+r"(swizzled));                            // as in LdmatrixTile
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
    const u32 place = first + (swizzled ^ static_cast<u32>((column / kChunk + c) * kChunkBytes));
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
