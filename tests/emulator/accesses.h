// Plain accesses of a kernel to shared memory. Kernels are compiled as for ThreadSanitizer, which
// announces every one; accesses.cpp listens in its place.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::emulator {

// What this thread of the host listens for: the shared memory of the block that it runs.
void watch(const u8* begin, u64 bytes);

}  // namespace attnlab::emulator
