// Makes tensor maps: they say how the bulk tensor copies of sm_90 (kernels/ptx/tma.cuh) see a
// tensor and the box of it that they copy.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/shared/layout.h"
#include "kernels/shared/tensor_map.h"

namespace attnlab::cuda {

// Swizzle says how a box lies in shared memory: rows of at most `swizzle` bytes, whose 16-byte
// chunks swizzle<32|64|128>() of kernels/shared/layout.h permutes, and `none` does not.
enum class Swizzle : int { none = 0, bytes_32 = 32, bytes_64 = 64, bytes_128 = 128 };

// TensorMapSpec has dimensions from the innermost, contiguous one outwards; at most 5.
struct TensorMapSpec {
  Dtype dtype = Dtype::f16;
  const void* data = nullptr;
  std::vector<i64> extents;  // elements
  std::vector<i64> strides;  // elements, of each dimension but the first
  std::vector<i64> box;      // elements
  Swizzle swizzle = Swizzle::bytes_128;

  i64 box_bytes() const;  // that a copy tells its barrier
};

// Returns empty if the hardware can do it, else one sentence that says why not. Source: CUDA driver
// API, cuTensorMapEncodeTiled.
std::string invalid(const TensorMapSpec& spec);

// Needs the driver, of CUDA 12.0 or later. Throws std::invalid_argument with the words of
// invalid(), and what check() throws.
TensorMap make_tensor_map(const TensorMapSpec& spec);

// TileTensor is a q, k, v, o, ... in memory, and the rows of it that one tile takes.
struct TileTensor {
  Dtype dtype = Dtype::f16;
  const void* data = nullptr;
  Strides strides;
  i64 batch = 1;  // 1 of a packed tensor, whose rows are those of all entries
  i64 heads = 1;
  i64 rows = 0;
  i64 head_dim = 0;
  i64 tile_rows = 0;
  Swizzle swizzle = Swizzle::bytes_128;  // not none
};

// Returns a 4-D map, coordinates (column, row, head, batch): the box is a slab of a tile, as many
// columns as the swizzle is wide. Columns past head_dim are zero.
TensorMapSpec slab_of(const TileTensor& tensor);

// Returns a 5-D map, coordinates (column within a slab, row, slab, head, batch): the box is a whole
// tile, slab behind slab. head_dim must be whole slabs: throws std::invalid_argument.
TensorMapSpec tile_of(const TileTensor& tensor);

}  // namespace attnlab::cuda
