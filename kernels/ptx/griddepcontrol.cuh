// sm_90. PTX ISA: griddepcontrol. It overlaps kernels of one stream (LaunchGrid::starts_early).
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// The kernel behind this one may start once all blocks have called this or ended.
__device__ inline void griddepcontrol_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// Waits until the kernel in front has ended and its writes are seen.
__device__ inline void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace attnlab::ptx
