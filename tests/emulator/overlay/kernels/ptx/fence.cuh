// Emulated: see kernels/ptx/fence.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void fence_proxy_async_shared() {}
inline void fence_proxy_async_global() {}

}  // namespace attnlab::ptx
