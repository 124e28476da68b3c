// Holds kernels that are no attention: what the runtime measures and compares with.
#pragma once

#include "kernels/ptx/globaltimer.cuh"
#include "kernels/shared/base.h"

namespace attnlab::instruments {

// SpinReport is what a spin tells about itself, in memory that the host sees.
struct SpinReport {
  u64 cycles;       // clock64 from start to end
  u64 nanoseconds;  // globaltimer from start to end
  u32 ended;        // 1 once it has: what was queued behind it before that waited
};

// Keeps the queue busy for at least `nanoseconds` (and `cycles`), so that the host can queue work
// behind it. One thread runs it.
__device__ inline void spin(u64 nanoseconds, u64 cycles, SpinReport* report) {
  const u64 begin = ptx::globaltimer();
  const u64 begin_cycles = static_cast<u64>(clock64());
  u64 now = begin;
  u64 now_cycles = begin_cycles;
  while (now - begin < nanoseconds || now_cycles - begin_cycles < cycles) {
    now = ptx::globaltimer();
    now_cycles = static_cast<u64>(clock64());
  }
  report->cycles = now_cycles - begin_cycles;
  report->nanoseconds = now - begin;
  __threadfence_system();
  *static_cast<volatile u32*>(&report->ended) = 1;
}

// Maps 64 bits to 64 bits one to one and scatters them. Source: Steele, Lea and Flood, Fast
// splittable pseudorandom number generators (OOPSLA 2014), the finaliser of SplitMix64.
__device__ constexpr u64 scatter(u64 x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ul;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBul;
  return x ^ (x >> 31);
}

// Adds to *sum what all threads of the block's warps found.
__device__ inline void add_of_warps(u64 mine, u64* sum) {
  for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(0xFFFFFFFFu, mine, lanes);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(mine));
  }
}

// Adds to *sum a number for each 4-byte word that depends on its value and its place; the order of
// additions is nothing to the sum, so any grid gives the same. The last bytes % 4 bytes are a word
// of their own.
__device__ inline void fingerprint(const u8* data, u64 bytes, u64* sum) {
  const u64 words = bytes / 4;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x;
  const u64 first = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  u64 mine = 0;
  for (u64 word = first; word < words; word += stride) {
    mine += scatter((word << 32 ^ word >> 32) + reinterpret_cast<const u32*>(data)[word]);
  }
  if (first == 0) {
    u64 rest = 0;
    for (u64 byte = words * 4; byte < bytes; ++byte) rest = rest << 8 | data[byte];
    mine += scatter(rest + bytes);
  }
  add_of_warps(mine, sum);
}

// Adds to *sum how many of the elements, of 2 or 4 bytes each, are those of `filled`, which repeats
// one byte.
__device__ inline void count_filled(const u8* data, u64 bytes, u32 filled, u32 element_bytes,
                                    u64* sum) {
  const u64 words = bytes / 4;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x;
  const u64 first = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x;
  u64 mine = 0;
  for (u64 word = first; word < words; word += stride) {
    const u32 difference = reinterpret_cast<const u32*>(data)[word] ^ filled;
    if (element_bytes == 4) {
      mine += difference == 0 ? 1 : 0;
    } else {
      mine += ((difference & 0xFFFFu) == 0 ? 1 : 0) + (difference >> 16 == 0 ? 1 : 0);
    }
  }
  if (first == 0 && bytes % 4 != 0) {
    const u16 last = reinterpret_cast<const u16*>(data)[2 * words];
    mine += last == static_cast<u16>(filled) ? 1 : 0;
  }
  add_of_warps(mine, sum);
}

// Fills `chunks` of 16 bytes with numbers that depend on their places and repeat nowhere.
__device__ inline void noise(uint4* data, u64 chunks) {
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < chunks; i += stride) {
    const u64 low = scatter(2 * i), high = scatter(2 * i + 1);
    data[i] = {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
               static_cast<u32>(high >> 32)};
  }
}

// Copies to[i] = from[i] for `chunks` of 16 bytes, by any grid.
__device__ inline void copy(const uint4* from, uint4* to, u64 chunks) {
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x;
  for (u64 i = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; i < chunks; i += stride) {
    to[i] = from[i];
  }
}

}  // namespace attnlab::instruments
