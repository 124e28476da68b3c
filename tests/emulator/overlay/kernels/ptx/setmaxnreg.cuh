// Emulated: see kernels/ptx/setmaxnreg.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

// A thread has as many here as it wants.
template <i32 kRegisters>
void setmaxnreg_dec() {
  emulator::together(128, "setmaxnreg", nullptr, nullptr);
}

template <i32 kRegisters>
void setmaxnreg_inc() {
  emulator::together(128, "setmaxnreg", nullptr, nullptr);
}

}  // namespace attnlab::ptx
