// Emulated: see kernels/ptx/griddepcontrol.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

// Launches follow one another here. A thread that never waits for the one in front is found; what
// it reads before it waits is not looked at.
inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() { emulator::wait_for_launch_in_front(); }

}  // namespace attnlab::ptx
