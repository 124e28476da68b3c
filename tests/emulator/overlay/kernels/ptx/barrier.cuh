// Emulated: see kernels/ptx/barrier.cuh.
#pragma once

#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void barrier_sync(i32 barrier, i32 threads) { emulator::barrier_sync(barrier, threads); }

inline void barrier_arrive(i32 barrier, i32 threads) { emulator::barrier_arrive(barrier, threads); }

}  // namespace attnlab::ptx
