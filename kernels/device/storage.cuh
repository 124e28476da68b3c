// Reads and writes the storage types in device memory, eight values at a time: 16 bytes of a 16-bit
// type, the width of the widest load.
#pragma once

#include "kernels/ptx/cvt.cuh"
#include "kernels/shared/base.h"

namespace attnlab::device {

constexpr i32 kChunk = 8;  // values

using F32 = float;

struct F16 {
  u16 bits;
  static __device__ float low(u32 pair) { return ptx::cvt_f32_f16(static_cast<u16>(pair)); }
  static __device__ float high(u32 pair) { return ptx::cvt_f32_f16(static_cast<u16>(pair >> 16)); }
  static __device__ u32 pair(float low, float high) { return ptx::cvt_rn_f16x2_f32(low, high); }
};

struct Bf16 {
  u16 bits;
  static __device__ float low(u32 pair) { return bit_cast<float>(pair << 16); }
  static __device__ float high(u32 pair) { return bit_cast<float>(pair & 0xFFFF0000u); }
  static __device__ u32 pair(float low, float high) { return ptx::cvt_rn_bf16x2_f32(low, high); }
};

// E4m3 is floating point in a byte: no infinity, 448 at the most. It only names a product's type.
struct E4m3 {
  u8 bits;
};

// Chunk holds eight consecutive values in registers, as they are stored.
template <class T>
struct alignas(16) Chunk {
  u32 pairs[kChunk / 2];
};
template <>
struct alignas(16) Chunk<F32> {
  float values[kChunk];
};

// Values holds eight values to compute with.
struct Values {
  float at[kChunk];
};

// `from` and `to` are aligned to 16 bytes.
template <class T>
__device__ Chunk<T> load_chunk(const T* from) {
  static_assert(sizeof(Chunk<T>) % sizeof(uint4) == 0, "a chunk is loaded 16 bytes at a time");
  Chunk<T> chunk;
#pragma unroll
  for (i32 i = 0; i < static_cast<i32>(sizeof(Chunk<T>) / sizeof(uint4)); ++i) {
    reinterpret_cast<uint4*>(&chunk)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return chunk;
}

template <class T>
__device__ void store_chunk(const Chunk<T>& chunk, T* to) {
#pragma unroll
  for (i32 i = 0; i < static_cast<i32>(sizeof(Chunk<T>) / sizeof(uint4)); ++i) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(&chunk)[i];
  }
}

template <class T>
__device__ Values decode(const Chunk<T>& chunk) {
  Values values;
#pragma unroll
  for (i32 i = 0; i < kChunk; i += 2) {
    values.at[i] = T::low(chunk.pairs[i / 2]);
    values.at[i + 1] = T::high(chunk.pairs[i / 2]);
  }
  return values;
}
template <>
__device__ Values decode(const Chunk<F32>& chunk) {
  Values values;
#pragma unroll
  for (i32 i = 0; i < kChunk; ++i) values.at[i] = chunk.values[i];
  return values;
}

// Rounds to nearest even.
template <class T>
__device__ Chunk<T> encode(const Values& values) {
  Chunk<T> chunk;
#pragma unroll
  for (i32 i = 0; i < kChunk; i += 2) {
    chunk.pairs[i / 2] = T::pair(values.at[i], values.at[i + 1]);
  }
  return chunk;
}
template <>
__device__ Chunk<F32> encode(const Values& values) {
  Chunk<F32> chunk;
#pragma unroll
  for (i32 i = 0; i < kChunk; ++i) chunk.values[i] = values.at[i];
  return chunk;
}

// Store one value each.
__device__ inline void store_value(float value, F32* to) { *to = value; }
template <class T>
__device__ void store_value(float value, T* to) {
  to->bits = static_cast<u16>(T::pair(value, 0.0f));
}

}  // namespace attnlab::device
