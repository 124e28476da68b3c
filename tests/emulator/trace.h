// Traces what blocks did, in which order, for tests of a kernel's schedule: bulk copies that they
// started, and numbers that they drew from counters.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::emulator {

struct Event {
  enum class Kind : u32 { copy, count };
  Kind kind;
  u32 block;
  u64 address;  // of the tensor that is copied from, or of the counter
  u32 count;    // what the counter was before
};

// Keeps an event; those of a block come in the order in which it did them.
void trace(const Event& event);

}  // namespace attnlab::emulator

// The emulated libcuda.so.1 exports them; a real one does not. Events are kept from the first one
// to the second, whose result holds until the next begins.
extern "C" void attnlab_emulator_begin_trace();
extern "C" const attnlab::emulator::Event* attnlab_emulator_end_trace(attnlab::u64* events);
