// Emulated: see kernels/ptx/cp_async.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void cp_async_cg_16(u32 to, const void* from, u32 bytes) {
  emulator::start_copy({.to = emulator::from_shared(to, 16, 16),
                        .from = bytes == 0 ? nullptr : static_cast<const u8*>(from),
                        .bytes = 16});
}

inline void cp_async_ca_4(u32 to, const void* from, u32 bytes) {
  emulator::start_copy({.to = emulator::from_shared(to, 4, 4),
                        .from = bytes == 0 ? nullptr : static_cast<const u8*>(from),
                        .bytes = 4});
}

inline void cp_async_commit_group() { emulator::commit_copies(); }

template <i32 kPending>
void cp_async_wait_group() {
  emulator::wait_for_copies(kPending);
}

}  // namespace attnlab::ptx
