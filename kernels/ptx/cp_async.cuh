// sm_80. PTX ISA: cp.async. A thread starts copies from global to shared memory and later waits for
// them, in groups, in the order in which it committed them.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Copies 16 bytes past the L1; it reads only the first `bytes` (0 or 16), the rest becomes zero.
__device__ inline void cp_async_cg_16(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(bytes)
               : "memory");
}

// Copies 4 bytes; `bytes` is 0 or 4.
__device__ inline void cp_async_ca_4(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}

__device__ inline void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's last groups are still in flight.
template <i32 kPending>
__device__ void cp_async_wait_group() {
  static_assert(kPending >= 0 && kPending <= 7, "a ring has few stages");
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace attnlab::ptx
