// Emulated: see kernels/ptx/prefetch.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

// There is no cache.
inline void prefetch_global_l2(const void* /*address*/) {}

}  // namespace attnlab::ptx
