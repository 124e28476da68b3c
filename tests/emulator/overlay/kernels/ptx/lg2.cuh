// Emulated: see kernels/ptx/lg2.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline float lg2_approx_ftz_f32(float x) { return __builtin_log2f(x); }

}  // namespace attnlab::ptx
