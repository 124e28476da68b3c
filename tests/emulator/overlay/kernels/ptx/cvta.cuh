// Emulated: see kernels/ptx/cvta.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline u32 cvta_to_shared(const void* address) { return emulator::to_shared(address); }

}  // namespace attnlab::ptx
