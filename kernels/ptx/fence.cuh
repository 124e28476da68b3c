// sm_90. PTX ISA: fence.proxy.async. Bulk copies and wgmma see shared memory by a way of their own.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Makes this thread's writes visible to bulk copies and wgmma that a later barrier lets start.
__device__ inline void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Puts this thread's bulk copies to and from global memory behind what it has done there.
__device__ inline void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace attnlab::ptx
