// Counts what the emulated GPU multiplied and what its bulk copies moved, for tests that hold a
// schedule's own count to it.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::emulator {

// Everything is counted since the last attnlab_emulator_take_counts().
struct Counts {
  u64 product_flops = 0;    // of wgmma and mma.sync
  u64 box_read_bytes = 0;   // of global memory, by bulk copies
  u64 box_write_bytes = 0;  // the same way back
};

void count_product(u64 flops);
void count_box_read(u64 bytes);
void count_box_write(u64 bytes);

}  // namespace attnlab::emulator

// The emulated libcuda.so.1 exports it; a real one does not.
extern "C" void attnlab_emulator_take_counts(attnlab::emulator::Counts* counts);
