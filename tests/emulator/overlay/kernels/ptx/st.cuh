// Emulated: see kernels/ptx/st.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void st_shared_u32(u32 to, u32 value) {
  *reinterpret_cast<u32*>(emulator::from_shared(to, 4, 4, emulator::Touch::writes)) = value;
}

}  // namespace attnlab::ptx
