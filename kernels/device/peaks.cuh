// Puts one kind of load each on a device, for its ceilings: what is read, copied or computed is
// known exactly, and every result ends in a number of the thread, so that nothing can be left out.
// Blocks have kThreads; `results` has room for a number of every thread of the grid.
#pragma once

#include "kernels/device/instruments.cuh"
#include "kernels/device/storage.cuh"
#include "kernels/ptx/cvta.cuh"
#include "kernels/ptx/ex2.cuh"
#include "kernels/ptx/ld.cuh"
#include "kernels/shared/base.h"

namespace attnlab::peaks {

constexpr i32 kThreads = 512;
constexpr i32 kLoads = 8;                       // of 16 bytes, in flight in a thread
constexpr i32 kChunk = kThreads * kLoads;       // of 16 bytes, that a block takes in a step
constexpr i32 kSharedRows = 4;                  // of kThreads times 16 bytes
constexpr i32 kFmaChains = 16, kEx2Chains = 8;  // of a thread, independent of one another

__device__ inline u64 thread_of_grid() {
  return static_cast<u64>(blockIdx.x) * kThreads + threadIdx.x;
}

__device__ inline u32 fold(const uint4& words) { return words.x ^ words.y ^ words.z ^ words.w; }

// Place is the chunk of a block, which wraps around.
struct Place {
  u64 chunk, chunks;
  __device__ explicit Place(u64 count) : chunk(blockIdx.x % count), chunks(count) {}
  __device__ u64 offset() const { return chunk * kChunk + threadIdx.x; }
  __device__ void advance(u64 stride) {
    chunk += stride;
    if (chunk >= chunks) chunk -= chunks;
  }
};

__device__ inline void load(const uint4* from, uint4 (&to)[kLoads]) {
#pragma unroll
  for (i32 i = 0; i < kLoads; ++i) to[i] = ptx::ld_global_no_allocate_v4(from + i * kThreads);
}

// Block b reads chunks b, b + stride, ... of `chunks` (modulo their number), `steps` of them.
// stride <= chunks. The exclusive or of all results is that of all words read.
__device__ inline void read_chunks(const uint4* data, u64 chunks, u64 stride, u32 steps,
                                   u32* results) {
  Place place(chunks);
  u32 sum = 0;
  for (u32 step = 0; step < steps; ++step) {
    uint4 loaded[kLoads];
    load(data + place.offset(), loaded);
#pragma unroll
    for (i32 i = 0; i < kLoads; ++i) sum ^= fold(loaded[i]);
    place.advance(stride);
  }
  results[thread_of_grid()] = sum;
}

// Copies the same chunks to the same places of another buffer.
__device__ inline void copy_chunks(const uint4* data, uint4* to, u64 chunks, u64 stride,
                                   u32 steps) {
  Place place(chunks);
  for (u32 step = 0; step < steps; ++step) {
    uint4 loaded[kLoads];
    load(data + place.offset(), loaded);
#pragma unroll
    for (i32 i = 0; i < kLoads; ++i) to[place.offset() + i * kThreads] = loaded[i];
    place.advance(stride);
  }
}

// Does kLoads loads of 16 bytes from shared memory a step, neighbouring threads side by side: no
// two lanes of a warp want one bank at a time. Row r of thread t of the grid holds the halves of
// scatter(t * kSharedRows + r), low first, and 0 and 1; a result is the sum, modulo 2^32, of the
// exclusive ors of each load's words.
__device__ inline void read_shared(u32 steps, u32* results) {
  __shared__ uint4 sRows[kSharedRows * kThreads];
  for (i32 row = 0; row < kSharedRows; ++row) {
    const u64 bits = instruments::scatter(thread_of_grid() * kSharedRows + row);
    sRows[row * kThreads + threadIdx.x] = {static_cast<u32>(bits), static_cast<u32>(bits >> 32), 0,
                                           1};
  }
  __syncthreads();
  const u32 mine = ptx::cvta_to_shared(sRows + threadIdx.x);
  u32 sum = 0;
  for (u32 step = 0; step < steps; ++step) {
    uint4 loaded[kLoads];
#pragma unroll
    for (i32 i = 0; i < kLoads; ++i) {
      const u32 row = static_cast<u32>(i % kSharedRows * kThreads * sizeof(uint4));
      loaded[i] = ptx::ld_volatile_shared_v4(mine + row);
    }
#pragma unroll
    for (i32 i = 0; i < kLoads; ++i) sum += fold(loaded[i]);
  }
  results[thread_of_grid()] = sum;
}

template <i32 kChains, class Step>
__device__ void run_chains(u32 steps, float* results, const Step& step) {
  float values[kChains];
#pragma unroll
  for (i32 i = 0; i < kChains; ++i) {
    values[i] =
        1.0f + static_cast<float>(instruments::scatter(thread_of_grid() * kChains + i) >> 40) *
                   0x1p-24f;  // in [1, 2)
  }
#pragma unroll 8
  for (u32 i = 0; i < steps; ++i) {
#pragma unroll
    for (i32 chain = 0; chain < kChains; ++chain) values[chain] = step(values[chain]);
  }
  float sum = 0.0f;
#pragma unroll
  for (i32 i = 0; i < kChains; ++i) sum += values[i];
  results[thread_of_grid()] = sum;
}

// Computes x -> factor * x + addend, kFmaChains of them a step.
__device__ inline void chain_fma(u32 steps, float factor, float addend, float* results) {
  run_chains<kFmaChains>(steps, results, [=](float x) { return fmaf(x, factor, addend); });
}

// Computes x -> 2^-x, kEx2Chains of them a step; any x ends at 0.6412, where x = 2^-x.
__device__ inline void chain_ex2(u32 steps, float* results) {
  run_chains<kEx2Chains>(steps, results, [](float x) { return ptx::ex2_approx_ftz_f32(-x); });
}

// Fills with N(0,1), `pairs` times two values. Source: Box and Muller, A note on the generation of
// random normal deviates (1958).
template <class T>
__device__ void fill_normal(T* to, u64 pairs, u64 seed) {
  for (u64 i = thread_of_grid(); i < pairs; i += static_cast<u64>(gridDim.x) * kThreads) {
    const u64 bits = instruments::scatter(instruments::scatter(seed) + i);
    const float radius = static_cast<float>((bits >> 40) + 1) * 0x1p-24f;  // (0, 1]
    const float angle = static_cast<float>(bits & 0xFFFFFF) * 0x1p-23f;    // [0, 2), in units of pi
    float sine, cosine;
    sincospif(angle, &sine, &cosine);
    const float length = sqrtf(-2.0f * logf(radius));
    device::store_value(length * cosine, to + 2 * i);
    device::store_value(length * sine, to + 2 * i + 1);
  }
}

}  // namespace attnlab::peaks
