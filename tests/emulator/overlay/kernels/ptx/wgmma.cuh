// Emulated: see kernels/ptx/wgmma.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void wgmma_fence() { emulator::together(128, "wgmma.fence", nullptr, nullptr); }

inline void wgmma_commit_group() { emulator::commit_products(); }

template <i32 kPending>
void wgmma_wait_group() {
  emulator::wait_for_products(kPending);
}

template <i32 kColumns>
void wgmma_fence_operand(float (&)[kColumns][4]) {}
template <i32 kSteps>
void wgmma_fence_operand(u32 (&)[kSteps][4]) {}

template <bool kTransposedA, bool kTransposedB, i32 kColumns>
void wgmma_m64k16_f32_f16(float (&d)[kColumns][4], u64 a, u64 b, bool adds) {
  emulator::start_product(emulator::Factors::f16,
                          {d[0], nullptr, a, b, 8 * kColumns, kTransposedA, kTransposedB, adds});
}
template <bool kTransposedB, i32 kColumns>
void wgmma_m64k16_f32_f16(float (&d)[kColumns][4], const u32 (&a)[4], u64 b, bool adds) {
  emulator::start_product(emulator::Factors::f16,
                          {d[0], a, 0, b, 8 * kColumns, false, kTransposedB, adds});
}
template <bool kTransposedA, bool kTransposedB, i32 kColumns>
void wgmma_m64k16_f32_bf16(float (&d)[kColumns][4], u64 a, u64 b, bool adds) {
  emulator::start_product(emulator::Factors::bf16,
                          {d[0], nullptr, a, b, 8 * kColumns, kTransposedA, kTransposedB, adds});
}
template <bool kTransposedB, i32 kColumns>
void wgmma_m64k16_f32_bf16(float (&d)[kColumns][4], const u32 (&a)[4], u64 b, bool adds) {
  emulator::start_product(emulator::Factors::bf16,
                          {d[0], a, 0, b, 8 * kColumns, false, kTransposedB, adds});
}

template <i32 kColumns>
void wgmma_m64k32_f32_e4m3(float (&d)[kColumns][4], u64 a, u64 b, bool adds) {
  emulator::start_product(emulator::Factors::e4m3,
                          {d[0], nullptr, a, b, 8 * kColumns, false, false, adds});
}
template <i32 kColumns>
void wgmma_m64k32_f32_e4m3(float (&d)[kColumns][4], const u32 (&a)[4], u64 b, bool adds) {
  emulator::start_product(emulator::Factors::e4m3,
                          {d[0], a, 0, b, 8 * kColumns, false, false, adds});
}

}  // namespace attnlab::ptx
