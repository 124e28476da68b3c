#include "tests/emulator/tensor_box.h"

#include <atomic>
#include <cstring>

#include "kernels/shared/tile.h"
#include "tests/emulator/counts.h"

namespace attnlab::emulator {
namespace {

// Returns where a byte of the box lies in shared memory: chunks of 16 bytes are permuted by the
// line of 128 bytes that they are in. Source: PTX ISA, swizzling modes of tensors.
u64 swizzled(u64 address, u32 swizzle_bytes) {
  const u64 lines = swizzle_bytes == 0 ? 0 : swizzle_bytes / 16 - 1;
  return address ^ (address >> 7 & lines) << 4;
}

// Calls element(place in shared memory, place in global memory or null outside the tensor).
template <class Element>
void for_elements(const TensorBox& box, u8* shared, const Element& element) {
  const TensorMapBits& map = box.map;
  const auto base = reinterpret_cast<u64>(shared);
  std::array<u32, kMostDimensions> at{};
  const u32 elements = box.bytes / map.element_bytes;
  for (u32 i = 0; i < elements; ++i) {
    u64 place = map.data;
    bool exists = true;
    for (u32 d = 0; d < map.dimensions; ++d) {
      const i64 index = i64{box.first[d]} + at[d];
      exists = exists && index >= 0 && index < map.extents[d];
      place += static_cast<u64>(index) * (d == 0 ? map.element_bytes : map.strides[d - 1]);
    }
    const u64 to = swizzled(base + u64{i} * map.element_bytes, map.swizzle_bytes);
    element(reinterpret_cast<u8*>(to), exists ? reinterpret_cast<u8*>(place) : nullptr);
    for (u32 d = 0; d < map.dimensions && ++at[d] == map.box[d]; ++d) at[d] = 0;
  }
}

}  // namespace

TensorBox box_of(const void* map, const i32* coordinates, int dimensions) {
  TensorBox box;
  std::memcpy(&box.map, map, sizeof box.map);
  if (box.map.magic != kTensorMapMagic) {
    box.error = "a copy by a tensor map that the driver has not made";
    return box;
  }
  if (box.map.dimensions != static_cast<u32>(dimensions)) {
    box.error = "a copy of " + std::to_string(dimensions) + " dimensions by a tensor map of " +
                std::to_string(box.map.dimensions);
    return box;
  }
  box.bytes = box.map.element_bytes;
  for (int d = 0; d < dimensions; ++d) {
    box.first[static_cast<std::size_t>(d)] = coordinates[d];
    box.bytes *= box.map.box[d];
  }
  return box;
}

void copy_box(const TensorBox& box, u8* to) {
  u64 inside = 0;
  for_elements(box, to, [&](u8* shared, const u8* global) {
    if (global == nullptr) {
      std::memset(shared, 0, box.map.element_bytes);
    } else {
      std::memcpy(shared, global, box.map.element_bytes);
      inside += box.map.element_bytes;
    }
  });
  count_box_read(inside);
}

void store_box(const TensorBox& box, const u8* from) {
  u64 inside = 0;
  for_elements(box, const_cast<u8*>(from), [&](const u8* shared, u8* global) {
    if (global == nullptr) return;
    std::memcpy(global, shared, box.map.element_bytes);
    inside += box.map.element_bytes;
  });
  count_box_write(inside);
}

void copy_line(const u8* from, u8* to, u32 bytes) {
  std::memcpy(to, from, bytes);
  count_box_read(bytes);
}

void add_line(float* to, const u8* from, u32 bytes) {
  for (u32 i = 0; i < bytes / sizeof(float); ++i) {
    float value;
    std::memcpy(&value, from + i * sizeof(float), sizeof value);
    std::atomic_ref<float>(to[i]).fetch_add(value, std::memory_order_relaxed);
  }
  count_box_write(bytes);
}

}  // namespace attnlab::emulator
