// Hears of a kernel's plain accesses to shared memory. Kernels are compiled as for ThreadSanitizer,
// which announces every one; accesses.cpp listens in its place.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::emulator {

// Listens in this thread of the host for the shared memory of the block that it runs.
void watch(const u8* begin, u64 bytes);

}  // namespace attnlab::emulator
