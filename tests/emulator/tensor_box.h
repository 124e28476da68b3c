// Defines tensor maps of the emulated driver, and the boxes that bulk copies take of tensors.
#pragma once

#include <array>
#include <string>

#include "kernels/shared/base.h"

namespace attnlab::emulator {

constexpr int kMostDimensions = 5;

// TensorMapBits lies in the 128 bytes of a CUtensorMap.
struct TensorMapBits {
  u64 magic;
  u64 data;
  u32 dimensions;
  u32 element_bytes;
  u32 swizzle_bytes;  // 0: none
  u32 extents[kMostDimensions];
  u64 strides[kMostDimensions - 1];  // bytes
  u16 box[kMostDimensions];
};
static_assert(sizeof(TensorMapBits) <= 128, "a tensor map has 128 bytes");
constexpr u64 kTensorMapMagic = 0x70616d726f736e65;

struct TensorBox {
  TensorMapBits map = {};
  std::array<i32, kMostDimensions> first{};  // element
  u32 bytes = 0;                             // in shared memory
  std::string error;                         // why there is none
};

// Returns the box; `map` is as the kernel holds it.
TensorBox box_of(const void* map, const i32* coordinates, int dimensions);

// Copies global to shared: what lies outside the tensor is zero. The swizzle goes by the address.
void copy_box(const TensorBox& box, u8* to);
// Copies shared to global: what lies outside is left out.
void store_box(const TensorBox& box, const u8* from);

// Do the same to bytes side by side, and to the sum of fp32 numbers, each added atomically.
void copy_line(const u8* from, u8* to, u32 bytes);
void add_line(float* to, const u8* from, u32 bytes);

}  // namespace attnlab::emulator
