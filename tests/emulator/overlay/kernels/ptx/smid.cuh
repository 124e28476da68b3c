// Emulated: see kernels/ptx/smid.cuh. Blocks take turns on as many as the emulated device has.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline u32 smid() { return emulator::place().block.x % emulator::multiprocessors(); }

}  // namespace attnlab::ptx
