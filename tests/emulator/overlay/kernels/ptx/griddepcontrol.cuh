// Emulated: see kernels/ptx/griddepcontrol.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

// Launches follow one another here.
inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}

}  // namespace attnlab::ptx
