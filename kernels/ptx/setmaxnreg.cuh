// sm_90a. PTX ISA: setmaxnreg. It sets the registers of a warpgroup's threads, and all of it must
// ask alike: a kernel is launched with as many for each, and some give what others take.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::ptx {

// Gives registers back until kRegisters are left, a multiple of 8 from 24 to 256.
template <i32 kRegisters>
__device__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Takes kRegisters, and waits until others have given them.
template <i32 kRegisters>
__device__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace attnlab::ptx
