// Emulated: see kernels/ptx/acquire_release.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

// A thread that reads such a word in a loop waits for another block.
inline i32 ld_acquire_gpu_global(const i32* from) {
  const i32 value = __atomic_load_n(from, __ATOMIC_ACQUIRE);
  emulator::wait_for_memory("a word in global memory");
  return value;
}

// Lets other blocks act on the word before this block goes on, as nothing orders its next steps
// before theirs.
inline void st_release_gpu_global(i32* to, i32 value) {
  __atomic_store_n(to, value, __ATOMIC_RELEASE);
  emulator::note_event();
  emulator::let_other_blocks_go_on();
}

}  // namespace attnlab::ptx
