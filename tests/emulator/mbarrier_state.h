// Defines the state of an mbarrier, and how it lies in its 8 bytes here.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::emulator {

struct MbarrierState {
  u32 arrivals;  // that a phase needs
  u32 pending;
  i32 bytes;
  u32 phase;  // parity of the one that is not over
};

inline MbarrierState unpacked(u64 bits) {
  return {.arrivals = static_cast<u32>(bits & 0xFFFFF),
          .pending = static_cast<u32>(bits >> 20 & 0xFFFFF),
          .bytes = static_cast<i32>(bits >> 40 & 0x3FFFFF) - (1 << 21),
          .phase = static_cast<u32>(bits >> 62 & 1)};
}

inline u64 packed(const MbarrierState& state) {
  return u64{state.arrivals} | u64{state.pending} << 20 |
         static_cast<u64>(state.bytes + (1 << 21)) << 40 | u64{state.phase} << 62 | u64{1} << 63;
}

}  // namespace attnlab::emulator
