// Multiplies on tensor cores by a warpgroup (wgmma): 64 rows, the accumulator in fp32 in the layout
// of warp_product.cuh for each of its four warps. A and B lie in shared memory as SlabTile says, or
// A in registers. A step of k takes 32 bytes: 16 columns of 16-bit values, 32 of e4m3.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/ptx/stmatrix.cuh"
#include "kernels/ptx/wgmma.cuh"
#include "kernels/shared/tile.h"

namespace attnlab::device {

constexpr i32 kWarpgroup = 128;

// Descriptor is a matrix descriptor. Its upper half is a constant. The lower one is hidden from the
// compiler where a product starts (opaque), which else keeps one for every step of it in registers.
// Source: PTX ISA, matrix descriptor format.
struct Descriptor {
  u32 low;

  static __device__ constexpr u32 field_of(u32 bytes) { return (bytes & 0x3FFFF) >> 4; }
  // Groups of eight rows, which are as long as the swizzle is wide, follow one another.
  template <i32 kRowBytes>
  static __device__ constexpr u64 with_upper(u32 low) {
    static_assert(kRowBytes == 128 || kRowBytes == 64, "these two swizzles are in use");
    constexpr u32 kSwizzle = kRowBytes == 128 ? 1u << 30 : 2u << 30;
    return static_cast<u64>(kSwizzle | field_of(8 * kRowBytes)) << 32 | low;
  }
  __device__ Descriptor opaque() const {
    Descriptor same = *this;
    asm volatile("" : "+r"(same.low));
    return same;
  }
  template <i32 kRowBytes>
  __device__ u64 behind(i32 bytes) const {
    return with_upper<kRowBytes>(low + field_of(static_cast<u32>(bytes)));
  }
};

// KMajor is a tile in K-major: rows m (of A) or n (of B), along which k runs.
template <SlabTile kTile>
struct KMajor {
  static constexpr bool kTransposed = false;
  static constexpr i32 kRowBytes = kTile.row_bytes();
  Descriptor first;

  // Starts from `row`, a multiple of 8, of the tile at address `tile`.
  __device__ KMajor(u32 tile, i32 row)
      : first{Descriptor::field_of(tile + static_cast<u32>(row * kRowBytes)) | 1u << 16} {}
  static __device__ constexpr i32 offset(i32 k) {
    constexpr i32 kSteps = kRowBytes / 32;  // of a slab
    return k / kSteps * kTile.slab_bytes() + k % kSteps * 32;
  }
  // Returns the same with its descriptor computed here, and not just before the product starts. So
  // a product can start as soon as a wait is over that stands between.
  __device__ KMajor ready() const {
    KMajor same = *this;
    same.first = first.opaque();
    return same;
  }
};

// MnMajor is a tile of 16-bit values in MN-major: rows k, along which m (of A) or n (of B) runs
// (imm-trans-a, imm-trans-b). A step takes 16 rows. `tile` is the address of the first of its slabs
// of 64 columns that m or n takes.
template <SlabTile kTile>
struct MnMajor {
  static_assert(kTile.element_bytes == 2, "only 16-bit types have imm-trans");
  static constexpr bool kTransposed = true;
  static constexpr i32 kRowBytes = SlabTile::kRowBytes;
  Descriptor first;

  __device__ explicit MnMajor(u32 tile)
      : first{Descriptor::field_of(tile) |
              Descriptor::field_of(static_cast<u32>(kTile.slab_bytes())) << 16} {}
  static __device__ constexpr i32 offset(i32 k) { return k * 16 * kRowBytes; }
};

// FragmentsA is A in registers: kSteps fragments of a step each, rounded.
template <i32 kSteps>
struct FragmentsA {
  u32 pairs[kSteps][4];
};

template <class T, i32 kSteps>
__device__ void round_to(FragmentsA<kSteps>& factor, const Accumulator<1, 2 * kSteps>& sums) {
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    const FragmentA piece = fragment_a<T>(sums, 0, k);
#pragma unroll
    for (i32 i = 0; i < 4; ++i) factor.pairs[k][i] = piece.pairs[i];
  }
}

// Rounds sums to e4m3, from column 8 `first` on, of which a lane has two pairs of neighbours in 16
// columns: 2t, 2t + 1, 2t + 8 and 2t + 9. They become the four bytes that it has of 16 k: so k
// stands in the order of key_of_slot() (kernels/shared/quantise.h), and B must have it in the same.
template <i32 kSteps, i32 kColumns>
__device__ void round_to_e4m3(FragmentsA<kSteps>& factor, const Accumulator<1, kColumns>& sums,
                              i32 first = 0) {
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      const i32 half = i % 2, block = first + 4 * k + i / 2 * 2;
      const float(&left)[4] = sums.at[0][block];
      const float(&right)[4] = sums.at[0][block + 1];
      factor.pairs[k][i] =
          ptx::cvt_rn_satfinite_e4m3x2_f32(left[2 * half], left[2 * half + 1]) |
          static_cast<u32>(ptx::cvt_rn_satfinite_e4m3x2_f32(right[2 * half], right[2 * half + 1]))
              << 16;
    }
  }
}

// wgmma_ss reads both factors from shared memory.
template <bool kTransposedA, bool kTransposedB, i32 kColumns>
__device__ void wgmma_ss(F16, float (&d)[kColumns][4], u64 a, u64 b, bool adds) {
  ptx::wgmma_m64k16_f32_f16<kTransposedA, kTransposedB>(d, a, b, adds);
}
template <bool kTransposedA, bool kTransposedB, i32 kColumns>
__device__ void wgmma_ss(Bf16, float (&d)[kColumns][4], u64 a, u64 b, bool adds) {
  ptx::wgmma_m64k16_f32_bf16<kTransposedA, kTransposedB>(d, a, b, adds);
}
template <bool kTransposedA, bool kTransposedB, i32 kColumns>
__device__ void wgmma_ss(E4m3, float (&d)[kColumns][4], u64 a, u64 b, bool adds) {
  static_assert(!kTransposedA && !kTransposedB, "factors of e4m3 are K-major");
  ptx::wgmma_m64k32_f32_e4m3(d, a, b, adds);
}
// wgmma_rs reads A from registers.
template <bool kTransposedB, i32 kColumns>
__device__ void wgmma_rs(F16, float (&d)[kColumns][4], const u32 (&a)[4], u64 b, bool adds) {
  ptx::wgmma_m64k16_f32_f16<kTransposedB>(d, a, b, adds);
}
template <bool kTransposedB, i32 kColumns>
__device__ void wgmma_rs(Bf16, float (&d)[kColumns][4], const u32 (&a)[4], u64 b, bool adds) {
  ptx::wgmma_m64k16_f32_bf16<kTransposedB>(d, a, b, adds);
}
template <bool kTransposedB, i32 kColumns>
__device__ void wgmma_rs(E4m3, float (&d)[kColumns][4], const u32 (&a)[4], u64 b, bool adds) {
  static_assert(!kTransposedB, "factors of e4m3 are K-major");
  ptx::wgmma_m64k32_f32_e4m3(d, a, b, adds);
}

// ScaleD is PTX's scale-d: a product adds to its accumulator (one) or replaces it (zero).
enum class ScaleD : u8 { zero, one };

// Starts sums = A B, or sums += A B, over kSteps steps, and commits the group.
template <class T, i32 kSteps, i32 kColumns, class Left, class Right>
__device__ void start_product(Accumulator<1, kColumns>& sums, const Left& left, const Right& right,
                              ScaleD scale_d = ScaleD::zero) {
  const Descriptor a = left.first.opaque(), b = right.first.opaque();
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    wgmma_ss<Left::kTransposed, Right::kTransposed>(
        T{}, sums.at[0], a.template behind<Left::kRowBytes>(Left::offset(k)),
        b.template behind<Right::kRowBytes>(Right::offset(k)), k > 0 || scale_d == ScaleD::one);
  }
  ptx::wgmma_commit_group();
}

// Starts such a product with A in registers, of B's steps from `first` on.
template <class T, i32 kSteps, i32 kColumns, class Right>
__device__ void start_product(Accumulator<1, kColumns>& sums, const FragmentsA<kSteps>& left,
                              const Right& right, ScaleD scale_d, i32 first = 0) {
  const Descriptor b = right.first.opaque();
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    wgmma_rs<Right::kTransposed>(T{}, sums.at[0], left.pairs[k],
                                 b.template behind<Right::kRowBytes>(Right::offset(first + k)),
                                 k > 0 || scale_d == ScaleD::one);
  }
  ptx::wgmma_commit_group();
}

// Keeps the compiler from moving uses of registers that a product reads or writes across its start
// or the wait for it: called before one and behind the other.
template <i32 kColumns>
__device__ void fence_operand(Accumulator<1, kColumns>& sums) {
  ptx::wgmma_fence_operand(sums.at[0]);
}
template <i32 kSteps>
__device__ void fence_operand(FragmentsA<kSteps>& factor) {
  ptx::wgmma_fence_operand(factor.pairs);
}

// Writes a warp's 16 rows of an accumulator, rounded, to a tile, from `row` on.
template <class T, SlabTile kTile, i32 kColumns>
__device__ void store_accumulator_of_warp(const Accumulator<1, kColumns>& sums, u32 tile, i32 row,
                                          i32 lane = static_cast<i32>(threadIdx.x) % kWarp) {
#pragma unroll
  for (i32 k = 0; k < kColumns / 2; ++k) {
    const FragmentA piece = fragment_a<T>(sums, 0, k);
    const i32 place = kTile.offset(row + lane % 16, 2 * k + lane / 16);
    ptx::stmatrix_x4(tile + static_cast<u32>(place), piece.pairs);
  }
}

// Writes a warp's 16 rows of an accumulator that is rounded already, transposed: they become
// columns of the tile, from `column` on, a multiple of 16.
template <SlabTile kTile, i32 kSteps>
__device__ void store_transposed_of_warp(const FragmentsA<kSteps>& rounded, u32 tile, i32 column,
                                         i32 lane = static_cast<i32>(threadIdx.x) % kWarp) {
  static_assert(kTile.rows == 16 * kSteps, "columns of the sums are rows of the tile");
  const i32 chunk = column / kChunk + lane / 8 % 2;
#pragma unroll
  for (i32 k = 0; k < kSteps; ++k) {
    const i32 place = kTile.offset(16 * k + lane % 8 + lane / 16 * 8, chunk);
    ptx::stmatrix_x4_trans(tile + static_cast<u32>(place), rounded.pairs[k]);
  }
}

// Rounds an accumulator and writes it transposed: a warp's 16 rows become columns of the tile, from
// `column` on, its columns rows of the tile, from `row` on, multiples of 8.
template <class T, auto kTile, i32 kColumns>
__device__ void store_transposed_of_warp(const Accumulator<1, kColumns>& sums, u32 tile, i32 row,
                                         i32 column) {
  const i32 lane = static_cast<i32>(threadIdx.x) % kWarp;
  const i32 chunk = column / kChunk + lane / 8 % 2;
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
    const float(&own)[4] = sums.at[0][c];
    const i32 place = tile_offset(kTile, row + 8 * c + lane % 8, chunk);
    ptx::stmatrix_x2_trans(tile + static_cast<u32>(place),
                           {T::pair(own[0], own[1]), T::pair(own[2], own[3])});
  }
}

}  // namespace attnlab::device
