// Computes what v1's backward needs of rows at every step, before their scores.
#pragma once

#include "kernels/device/warp_product.cuh"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// Does lines 13 and 19 for the rows of a step: lse from m and l, in units of log2, and D =
// rowsum(dO * O), which is the diagonal of dO O^T: each warp multiplies fragments of 16 rows with
// themselves. Rows that saw nothing get an lse of infinity, and with it P = 0.
template <BackwardConfig kConfig, class T>
__device__ void row_statistics(u8* team_memory, u32 team_shared, i32 team_thread, i32 stage) {
  using namespace device;
  constexpr BackwardTiles kTiles = backward_tiles(kConfig);
  constexpr i32 kWarps = kConfig.team_warps();
  asm volatile("" : "+r"(team_thread));  // worked out anew, as opaque_lane()
  const auto floats = [&](i32 offset) { return reinterpret_cast<float*>(team_memory + offset); };
  for (i32 row = team_thread; row < kConfig.block_m; row += kWarps * kWarp) {
    const float l = floats(kTiles.l_of(stage))[row];
    floats(kTiles.lse())[row] = l == 0.0f ? kInfinity : floats(kTiles.m_of(stage))[row] + log2f(l);
  }
  for (i32 piece = team_thread / kWarp; piece < kConfig.block_m / 16; piece += kWarps) {
    const auto at = [&](i32 offset) { return team_shared + static_cast<u32>(offset); };
    const KMajorA<kTiles.q> dO(at(kTiles.dout_of(stage)), 16 * piece, 0);
    const KMajorB<kTiles.q> o(at(kTiles.o()), 16 * piece, 0);
    Accumulator<1, 2> products;
    products.clear();
    multiply_add<T, kConfig.head_dim / 16>(
        products, [&](i32, i32 k) { return fragment_a(dO, 0, 16 * k); },
        [&](i32 k, i32) { return fragment_b(o, 16 * k, 0); });
    // Rows and columns g and g + 8 meet in the lane that has columns 2t and 2t + 1 with g = 2t or
    // 2t + 1.
    const i32 g = team_thread % kWarp / 4, t = team_thread % 4;
    if (g / 2 != t) continue;
    float* const delta = floats(kTiles.delta()) + 16 * piece + g;
    delta[0] = g % 2 == 0 ? products.at[0][0][0] : products.at[0][0][1];
    delta[8] = g % 2 == 0 ? products.at[0][1][2] : products.at[0][1][3];
  }
}

}  // namespace attnlab::v1
