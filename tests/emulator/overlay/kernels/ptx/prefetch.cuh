// Emulated: see kernels/ptx/prefetch.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

// There is no L2.
inline void prefetch_global_l2(const void* /*from*/) {}

}  // namespace attnlab::ptx
