// Emulated: see kernels/ptx/mma.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void mma_m16n8k16_f32_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  emulator::WarpProduct product = {d, a, b0, b1};
  emulator::together(32, "mma.f16", &product, [](void* const* products) {
    emulator::multiply_m16n8k16(emulator::Factors::f16, products);
  });
}

inline void mma_m16n8k16_f32_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  emulator::WarpProduct product = {d, a, b0, b1};
  emulator::together(32, "mma.bf16", &product, [](void* const* products) {
    emulator::multiply_m16n8k16(emulator::Factors::bf16, products);
  });
}

}  // namespace attnlab::ptx
