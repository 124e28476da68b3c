// Shares what tests of a warpgroup's products need, each in a kernel of one tile: the beginning of
// the kernel's text, memory of operands and results, and the same products of integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "harness/tensors/arena.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/shared/convert.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {

// The kernels begin with this text.
inline constexpr const char* kProductText = R"(
#include "kernels/device/ring.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tma.cuh"
using namespace attnlab;
using namespace attnlab::device;

// Calls visit(row, column, value) for each of a lane's sums; rows go through the block's warps.
template <i32 kColumns, class Do>
__device__ void for_own(Accumulator<1, kColumns>& sums, const Do& visit) {
  const i32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
    for (i32 i = 0; i < 4; ++i) {
      visit(16 * warp + lane / 4 + i / 2 * 8, 8 * c + lane % 4 * 2 + i % 2, sums.at[0][c][i]);
    }
  }
}

// Makes a ring of one stage, whose barriers lie at `barriers`. All threads of the block call it.
__device__ inline Ring<1> make_ring(u32 barriers) {
  const Ring<1> ring{barriers};
  if (threadIdx.x == 0) {
    ring.init(1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  return ring;
}

// Starts the copies of all slabs of a tile; one thread calls it.
__device__ inline void start_copies(const SlabTile& tile, const TensorMap& map, u32 to,
                                    const Ring<1>& ring) {
  for (i32 slab = 0; slab < tile.slabs(); ++slab) {
    ptx::cp_async_bulk_tensor_4d(to + slab * tile.slab_bytes(), map, slab * tile.slab_columns(), 0,
                                 0, 0, ring.full(0));
  }
}
)";

// ProductSize is the size of products S (64, keys) = Q K^T and O (64, head_dim) = P V.
struct ProductSize {
  i64 keys, head_dim;
  std::string name() const { return std::to_string(keys) + "x" + std::to_string(head_dim); }
};

inline void PrintTo(const ProductSize& size, std::ostream* stream) { *stream << size.name(); }

// IntegerMatrix is a matrix of integers as some of its products see it.
struct IntegerMatrix {
  const std::vector<int>& values;
  i64 stride;
  bool transposed = false;
  int at(i64 row, i64 column) const {
    const i64 place = transposed ? column * stride + row : row * stride + column;
    return values[static_cast<std::size_t>(place)];
  }
};

// Returns left (rows, k) times right (k, columns).
inline std::vector<float> product(const IntegerMatrix& left, const IntegerMatrix& right, i64 rows,
                                  i64 columns, i64 k) {
  std::vector<float> sums;
  for (i64 row = 0; row < rows; ++row) {
    for (i64 column = 0; column < columns; ++column) {
      int sum = 0;
      for (i64 i = 0; i < k; ++i) sum += left.at(row, i) * right.at(i, column);
      sums.push_back(static_cast<float>(sum));
    }
  }
  return sums;
}

class ProductTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (gpu().compute_capability != 90) GTEST_SKIP() << "this GPU has no wgmma";
    arena_.emplace(runtime());
  }

  // Draws integers from -4 to 4.
  std::vector<int> integers(i64 count) {
    std::vector<int> values(static_cast<std::size_t>(count));
    for (int& value : values) value = static_cast<int>(generator_() % 9) - 4;
    return values;
  }
  template <class T>
  Arena::Buffer upload(const std::vector<T>& values) {
    Arena::Buffer buffer = arena_->allocate("operand", values.size() * sizeof(T));
    runtime().write(buffer.get(), values.data(), values.size() * sizeof(T));
    return buffer;
  }
  Arena::Buffer upload_rounded(const std::vector<int>& values, Dtype dtype) {
    std::vector<std::uint16_t> bits;
    for (const int value : values) {
      const auto number = static_cast<float>(value);
      bits.push_back(dtype == Dtype::f16 ? f16_from_f32(number) : bf16_from_f32(number));
    }
    return upload(bits);
  }
  Arena::Buffer floats(i64 count) {
    return arena_->allocate("result", static_cast<u64>(count) * sizeof(float));
  }
  template <class T = float>
  std::vector<T> download(const Arena::Buffer& buffer, i64 count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    runtime().read(values.data(), buffer.get(), values.size() * sizeof(T));
    return values;
  }
  // Returns the map of a matrix whose tiles have `tile_rows` rows, or all of them.
  static TensorMap map(const Arena::Buffer& data, Dtype dtype, i64 rows, i64 columns,
                       i64 tile_rows = 0) {
    return cuda::make_tensor_map(cuda::slab_of({.dtype = dtype,
                                                .data = data.get(),
                                                .strides = {.row = columns},
                                                .rows = rows,
                                                .head_dim = columns,
                                                .tile_rows = tile_rows == 0 ? rows : tile_rows}));
  }

  std::mt19937 generator_{3};
  std::optional<Arena> arena_;
};

}  // namespace attnlab
