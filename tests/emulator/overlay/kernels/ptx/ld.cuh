// Emulated: see kernels/ptx/ld.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline uint4 ld_global_no_allocate_v4(const uint4* from) { return *from; }

inline uint4 ld_volatile_shared_v4(u32 from) {
  return *reinterpret_cast<const uint4*>(
      emulator::from_shared(from, 16, 16, emulator::Touch::reads));
}

}  // namespace attnlab::ptx
