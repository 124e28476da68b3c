// Emulated: see kernels/ptx/mbarrier.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void mbarrier_init(u32 barrier, u32 arrivals) { emulator::mbarrier_init(barrier, arrivals); }

inline void fence_mbarrier_init() {}

inline void mbarrier_arrive(u32 barrier) { emulator::mbarrier_arrive(barrier, 1, 0); }

inline void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  emulator::mbarrier_arrive(barrier, 1, bytes);
}

inline bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
  if (emulator::mbarrier_phase_is_over(barrier, parity)) return true;
  emulator::wait_for_event("an mbarrier");
  return emulator::mbarrier_phase_is_over(barrier, parity);
}

inline bool mbarrier_test_wait_parity(u32 barrier, u32 parity) {
  const bool too_early = emulator::looks_too_early();
  if (!too_early && emulator::mbarrier_phase_is_over(barrier, parity)) return true;
  emulator::wait_for_memory("an mbarrier");  // others get their turn, and this thread goes on
  return !too_early && emulator::mbarrier_phase_is_over(barrier, parity);
}

}  // namespace attnlab::ptx
