// Emulated: see kernels/ptx/globaltimer.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline u64 globaltimer() { return emulator::nanoseconds(); }

}  // namespace attnlab::ptx
