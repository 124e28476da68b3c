// Products of a warpgroup on tensor cores (wgmma): 64 rows, sums in fp32 in the layout of
// warp_product.cuh for each of its four warps. Factors lie in shared memory as SlabTile says.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/shared/tile.h"

namespace attnlab::device {

constexpr i32 kWarpgroup = 128;

// A matrix descriptor. The upper half is a constant; of the lower one the address is worked out at
// each use, else the compiler keeps one for every piece in registers. Source: PTX ISA, matrix
// descriptor format.
struct Descriptor {
  u32 low;

  static __device__ constexpr u32 field_of(u32 bytes) { return (bytes & 0x3FFFF) >> 4; }
  // Under the swizzle of 128 bytes, groups of eight rows follow one another.
  static __device__ constexpr u64 with_upper(u32 low) {
    constexpr u32 kSwizzle128 = 1u << 30;
    return static_cast<u64>(kSwizzle128 | field_of(8 * SlabTile::kRowBytes)) << 32 | low;
  }
  __device__ Descriptor anew() const {
    Descriptor same = *this;
    asm volatile("" : "+r"(same.low));
    return same;
  }
  __device__ u64 behind(i32 bytes) const {
    return with_upper(low + field_of(static_cast<u32>(bytes)));
  }
};

// A factor whose rows (or, of a right factor, columns) are the tile's rows: the sum runs along
// them. Pieces of 16 columns.
template <SlabTile kTile>
struct AlongRows {
  static constexpr bool kTransposed = false;
  Descriptor first;

  // From `row`, a multiple of 8, of the tile at address `tile` on.
  __device__ AlongRows(u32 tile, i32 row)
      : first{Descriptor::field_of(tile + static_cast<u32>(row * SlabTile::kRowBytes)) | 1u << 16} {
  }
  static __device__ constexpr i32 offset(i32 k) { return k / 4 * kTile.slab_bytes() + k % 4 * 32; }
};

// A right factor whose rows are the tile's rows: the sum runs across them. Pieces of 16 rows.
template <SlabTile kTile>
struct AcrossRows {
  static constexpr bool kTransposed = true;
  Descriptor first;

  __device__ explicit AcrossRows(u32 tile)
      : first{Descriptor::field_of(tile) |
              Descriptor::field_of(static_cast<u32>(kTile.slab_bytes())) << 16} {}
  static __device__ constexpr i32 offset(i32 k) { return k * 16 * SlabTile::kRowBytes; }
};

// A left factor in registers: kSteps pieces of 16 columns, rounded.
template <i32 kSteps>
struct LeftFactor {
  u32 pairs[kSteps][4];
};

template <class T, i32 kSteps>
__device__ void round_to(LeftFactor<kSteps>& factor, const Sums<1, 2 * kSteps>& sums) {
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    const LeftPiece piece = left_piece<T>(sums, 0, k);
#pragma unroll
    for (i32 i = 0; i < 4; ++i) factor.pairs[k][i] = piece.pairs[i];
  }
}

template <bool kTransposed, i32 kColumns, class Left>
__device__ void wgmma(F16, float (&d)[kColumns][4], const Left& a, u64 b, bool adds) {
  ptx::wgmma_m64k16_f32_f16<kTransposed>(d, a, b, adds);
}
template <bool kTransposed, i32 kColumns, class Left>
__device__ void wgmma(Bf16, float (&d)[kColumns][4], const Left& a, u64 b, bool adds) {
  ptx::wgmma_m64k16_f32_bf16<kTransposed>(d, a, b, adds);
}

// What a product adds to.
enum class Onto : u8 { zero, sums };

// Start sums = left right, or sums += left right, over kSteps pieces of 16; the group is committed.
template <class T, i32 kSteps, i32 kColumns, class Left, class Right>
__device__ void start_product(Sums<1, kColumns>& sums, const Left& left, const Right& right,
                              Onto onto = Onto::zero) {
  const Descriptor a = left.first.anew(), b = right.first.anew();
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    wgmma<Right::kTransposed>(T{}, sums.at[0], a.behind(Left::offset(k)),
                              b.behind(Right::offset(k)), k > 0 || onto == Onto::sums);
  }
  ptx::wgmma_commit_group();
}

// The same with the left factor in registers.
template <class T, i32 kSteps, i32 kColumns, class Right>
__device__ void start_product(Sums<1, kColumns>& sums, const LeftFactor<kSteps>& left,
                              const Right& right, Onto onto) {
  const Descriptor b = right.first.anew();
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    wgmma<Right::kTransposed>(T{}, sums.at[0], left.pairs[k], b.behind(Right::offset(k)),
                              k > 0 || onto == Onto::sums);
  }
  ptx::wgmma_commit_group();
}

// Before a product is started, and behind the wait for it: what it reads and writes in registers.
template <i32 kColumns>
__device__ void hold(Sums<1, kColumns>& sums) {
  ptx::wgmma_hold(sums.at[0]);
}
template <i32 kSteps>
__device__ void hold(LeftFactor<kSteps>& factor) {
  ptx::wgmma_hold(factor.pairs);
}

// Each warp writes its 16 rows of sums, rounded, to a tile, from `row` on.
template <class T, SlabTile kTile, i32 kColumns>
__device__ void store_sums_of_warp(const Sums<1, kColumns>& sums, u32 tile, i32 row) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
#pragma unroll
  for (i32 k = 0; k < kColumns / 2; ++k) {
    const LeftPiece piece = left_piece<T>(sums, 0, k);
    const i32 place = kTile.offset(row + lane % 16, 2 * k + lane / 16);
    ptx::stmatrix_x4(tile + static_cast<u32>(place), piece.pairs);
  }
}

}  // namespace attnlab::device
