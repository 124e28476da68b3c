// Gives a kernel what it finds without including anything: the words of CUDA C++, and a way in for
// the emulated driver. It is compiled in front of each unit.
#pragma once

#include <math.h>

#include <type_traits>
#include <utility>

#include "tests/emulator/machine.h"

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__
#define __align__(bytes) alignas(bytes)
#define __shared__ static thread_local  // a thread of the host runs one block at a time
#define __CUDA_ARCH__ 900

#define threadIdx (::attnlab::emulator::place().thread)
#define blockIdx (::attnlab::emulator::place().block)
#define blockDim (::attnlab::emulator::place().block_size)
#define gridDim (::attnlab::emulator::place().grid_size)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

inline void __syncthreads() { attnlab::emulator::barrier_sync(0, 0); }
inline int __syncthreads_or(int predicate) {
  return attnlab::emulator::any_of_block(predicate != 0) ? 1 : 0;
}
inline void __syncwarp() { attnlab::emulator::together(32, "__syncwarp", nullptr, nullptr); }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) {}
inline long long clock64() { return static_cast<long long>(attnlab::emulator::nanoseconds()); }

template <class T>
struct ShuffleLane {
  T* value;
  int from;
};

// Every lane gets the value of lane `from`, or keeps its own where there is none.
template <class T>
T shuffle(const char* step, T value, int from) {
  ShuffleLane<T> lane = {&value, from};
  attnlab::emulator::together(32, step, &lane, [](void* const* lanes) {
    T before[32];
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] != nullptr) before[i] = *static_cast<ShuffleLane<T>*>(lanes[i])->value;
    }
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] == nullptr) continue;
      const auto& own = *static_cast<ShuffleLane<T>*>(lanes[i]);
      if (own.from < 32 && lanes[own.from] != nullptr) *own.value = before[own.from];
    }
  });
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  return shuffle("__shfl_xor_sync", value, static_cast<int>(threadIdx.x % 32) ^ lanes);
}
template <class T>
T __shfl_down_sync(unsigned, T value, int lanes) {
  return shuffle("__shfl_down_sync", value, static_cast<int>(threadIdx.x % 32) + lanes);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return shuffle("__shfl_sync", value, lane % 32);
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  struct Lane {
    bool own;
    unsigned all;
  } lane = {predicate != 0, 0};
  attnlab::emulator::together(32, "a vote", &lane, [](void* const* lanes) {
    unsigned all = 0;
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] != nullptr && static_cast<Lane*>(lanes[i])->own) all |= 1u << i;
    }
    for (int i = 0; i < 32; ++i) {
      if (lanes[i] != nullptr) static_cast<Lane*>(lanes[i])->all = all;
    }
  });
  return lane.all;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
// Byte i of the result is the byte of (b, a) whose number is digit i of `digits`, 0 to 7.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned digits) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= (bytes >> 8 * (digits >> 4 * i & 7) & 0xFF) << 8 * i;
  }
  return result;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }

template <class T>
T atomicAdd(T* to, T value) {
  T before = __atomic_load_n(to, __ATOMIC_RELAXED);
  T after = before + value;
  while (
      !__atomic_compare_exchange(to, &before, &after, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
    after = before + value;
  }
  if constexpr (std::is_same_v<T, unsigned>) {
    attnlab::emulator::note_count(to, before);
    attnlab::emulator::fall_behind();
  }
  return before;
}
template <>
inline float atomicAdd(float* to, float value) {
  unsigned before = __atomic_load_n(reinterpret_cast<unsigned*>(to), __ATOMIC_RELAXED);
  for (;;) {
    const float sum = __builtin_bit_cast(float, before) + value;
    unsigned after = __builtin_bit_cast(unsigned, sum);
    if (__atomic_compare_exchange(reinterpret_cast<unsigned*>(to), &before, &after, false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return __builtin_bit_cast(float, before);
    }
  }
}
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long expected,
                                    unsigned long long value) {
  __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  return expected;
}
inline unsigned atomicMax(unsigned* at, unsigned value) {
  unsigned before = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (value > before && !__atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_ACQ_REL,
                                                        __ATOMIC_RELAXED)) {
  }
  return before;
}
inline unsigned long long atomicMin(unsigned long long* at, unsigned long long value) {
  unsigned long long before = *at;
  while (value < before && !__atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_ACQ_REL,
                                                        __ATOMIC_RELAXED)) {
  }
  return before;
}
inline unsigned long long atomicMax(unsigned long long* at, unsigned long long value) {
  unsigned long long before = *at;
  while (value > before && !__atomic_compare_exchange_n(at, &before, value, false, __ATOMIC_ACQ_REL,
                                                        __ATOMIC_RELAXED)) {
  }
  return before;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
void __stcg(T* to, const T& value) {
  *to = value;
}

namespace attnlab::emulator {

// Calls a kernel by the addresses of its parameters, as cuLaunchKernelEx gets them.
template <class... Parameters>
void call(void (*kernel)(Parameters...), void** parameters) {
  [&]<std::size_t... kIndices>(std::index_sequence<kIndices...>) {
    kernel(*static_cast<Parameters*>(parameters[kIndices])...);
  }
  (std::index_sequence_for<Parameters...>());
}

}  // namespace attnlab::emulator
