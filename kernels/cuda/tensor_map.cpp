#include "kernels/cuda/tensor_map.h"

#include <array>
#include <cstdint>
#include <stdexcept>

#include "kernels/cuda/driver.h"

namespace attnlab::cuda {
namespace {

constexpr std::size_t kMostDimensions = 5;
constexpr i64 kAlignment = 16;  // bytes: of the tensor, its strides and the rows of a box
constexpr i64 kMostBox = 256;   // elements
constexpr i64 kMostExtent = i64{1} << 32;
constexpr i64 kStrideLimit = i64{1} << 40;  // bytes

std::string number(i64 value) { return std::to_string(value); }

std::string dimension(std::size_t index) { return "dimension " + std::to_string(index); }

std::string invalid_extents(const TensorMapSpec& spec) {
  for (std::size_t i = 0; i < spec.extents.size(); ++i) {
    if (spec.extents[i] >= 1 && spec.extents[i] <= kMostExtent) continue;
    return dimension(i) + " has " + number(spec.extents[i]) +
           " elements: it must have 1 to 2^32 of them";
  }
  return "";
}

std::string invalid_strides(const TensorMapSpec& spec) {
  for (std::size_t i = 0; i < spec.strides.size(); ++i) {
    const i64 bytes = spec.strides[i] * size_bytes(spec.dtype);
    if (bytes > 0 && bytes < kStrideLimit && bytes % kAlignment == 0) continue;
    return "the stride of " + dimension(i + 1) + " is " + number(bytes) +
           " bytes: it must be a multiple of 16 from 16 to below 2^40";
  }
  return "";
}

std::string invalid_box(const TensorMapSpec& spec) {
  for (std::size_t i = 0; i < spec.box.size(); ++i) {
    if (spec.box[i] >= 1 && spec.box[i] <= kMostBox) continue;
    return "the box has " + number(spec.box[i]) + " elements of " + dimension(i) +
           ": it must have 1 to 256";
  }
  const i64 row_bytes = spec.box[0] * size_bytes(spec.dtype);
  if (row_bytes % kAlignment != 0) {
    return "a row of the box has " + number(row_bytes) + " bytes: it must have a multiple of 16";
  }
  const i64 width = static_cast<i64>(spec.swizzle);
  if (spec.swizzle != Swizzle::none && row_bytes > width) {
    return "a row of the box has " + number(row_bytes) + " bytes: under the swizzle of " +
           number(width) + " bytes it must have no more than these";
  }
  return "";
}

CUtensorMapDataType type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: break;
    case Dtype::e4m3: return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case Dtype::f16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case Dtype::bf16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  }
  return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

CUtensorMapSwizzle mode_of(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none: break;
    case Swizzle::bytes_32: return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::bytes_64: return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::bytes_128: return CU_TENSOR_MAP_SWIZZLE_128B;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

// Returns the columns of a slab, which is as wide as the swizzle.
i64 slab_columns(const TileTensor& tensor) {
  return static_cast<i64>(tensor.swizzle) / size_bytes(tensor.dtype);
}

// A stride that no coordinate multiplies may be 0 (a packed tensor's batch), which is not legal.
i64 legal_stride(i64 extent, i64 stride, Dtype dtype) {
  return extent == 1 ? kAlignment / size_bytes(dtype) : stride;
}

}  // namespace

i64 TensorMapSpec::box_bytes() const {
  i64 bytes = size_bytes(dtype);
  for (const i64 elements : box) bytes *= elements;
  return bytes;
}

std::string invalid(const TensorMapSpec& spec) {
  const std::size_t dimensions = spec.extents.size();
  if (dimensions < 1 || dimensions > kMostDimensions) {
    return "a tensor of " + std::to_string(dimensions) + " dimensions: it must have 1 to 5";
  }
  if (spec.strides.size() + 1 != dimensions || spec.box.size() != dimensions) {
    return "a tensor of " + std::to_string(dimensions) + " dimensions with " +
           std::to_string(spec.strides.size()) + " strides and a box of " +
           std::to_string(spec.box.size()) +
           ": it must have one stride less and a box of as many dimensions";
  }
  const auto address = reinterpret_cast<std::uintptr_t>(spec.data);
  if (address == 0 || address % kAlignment != 0) {
    return "the tensor is not aligned to 16 bytes";
  }
  for (const auto& check : {invalid_extents, invalid_strides, invalid_box}) {
    if (std::string reason = check(spec); !reason.empty()) return reason;
  }
  return "";
}

TensorMap make_tensor_map(const TensorMapSpec& spec) {
  if (const std::string reason = invalid(spec); !reason.empty()) {
    throw std::invalid_argument("tensor map: " + reason);
  }
  std::array<cuuint64_t, kMostDimensions> extents = {}, strides_bytes = {};
  std::array<cuuint32_t, kMostDimensions> box = {}, steps = {};
  const std::size_t dimensions = spec.extents.size();
  for (std::size_t i = 0; i < dimensions; ++i) {
    extents[i] = static_cast<cuuint64_t>(spec.extents[i]);
    box[i] = static_cast<cuuint32_t>(spec.box[i]);
    steps[i] = 1;
  }
  for (std::size_t i = 0; i < spec.strides.size(); ++i) {
    strides_bytes[i] = static_cast<cuuint64_t>(spec.strides[i] * size_bytes(spec.dtype));
  }
  CUtensorMap map = {};
  check(driver().cuTensorMapEncodeTiled(
            &map, type_of(spec.dtype), static_cast<cuuint32_t>(dimensions),
            const_cast<void*>(spec.data), extents.data(), strides_bytes.data(), box.data(),
            steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, mode_of(spec.swizzle),
            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        "making a tensor map");
  return bit_cast<TensorMap>(map);
}

TensorMapSpec slab_of(const TileTensor& tensor) {
  const auto legal = [&](i64 extent, i64 stride) {
    return legal_stride(extent, stride, tensor.dtype);
  };
  return {
      .dtype = tensor.dtype,
      .data = tensor.data,
      .extents = {tensor.head_dim, tensor.rows, tensor.heads, tensor.batch},
      .strides = {legal(tensor.rows, tensor.strides.row), legal(tensor.heads, tensor.strides.head),
                  legal(tensor.batch, tensor.strides.batch)},
      .box = {slab_columns(tensor), tensor.tile_rows, 1, 1},
      .swizzle = tensor.swizzle};
}

TensorMapSpec tile_of(const TileTensor& tensor) {
  const i64 columns = slab_columns(tensor);
  if (tensor.head_dim % columns != 0) {
    throw std::invalid_argument("tensor map: head_dim " + number(tensor.head_dim) +
                                " is not a whole number of slabs of " + number(columns) +
                                " columns: copy slab by slab");
  }
  const i64 slabs = tensor.head_dim / columns;
  TensorMapSpec spec = slab_of(tensor);
  spec.extents[0] = columns;
  spec.extents.insert(spec.extents.begin() + 2, slabs);
  spec.strides.insert(spec.strides.begin() + 1, columns);
  spec.box.insert(spec.box.begin() + 2, slabs);
  return spec;
}

}  // namespace attnlab::cuda
