// Tests products of a warpgroup (kernels/device/warpgroup_product.cuh), tile by tile: operands
// arrive by bulk copies as they do in a kernel, results are compared element by element. All are
// small integers, so every sum is exact.
#include <cstdint>
#include <optional>
#include <ostream>
#include <random>

#include "harness/tensors/arena.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_map.h"
#include "kernels/shared/convert.h"
#include "kernels/shared/tile.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

constexpr i64 kRows = 64;

// Computes S (64, keys) = Q K^T with both factors in shared memory; O (64, head_dim) = P V with P
// in registers, in fp32 and, by way of shared memory and a bulk copy, rounded.
KernelUnit unit(i64 keys, i64 head_dim) {
  const SlabTile q = {.rows = 64, .columns = static_cast<i32>(head_dim)};
  const SlabTile kv = {.rows = static_cast<i32>(keys), .columns = static_cast<i32>(head_dim)};
  const auto bytes = static_cast<u64>(q.bytes() + 2 * kv.bytes() + 64);
  return {.name = "products-" + std::to_string(keys) + "x" + std::to_string(head_dim),
          .source = "constexpr int kKeys = " + std::to_string(keys) +
                    ", kHeadDim = " + std::to_string(head_dim) + ";" + R"(
#include "kernels/device/ring.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/tma.cuh"
using namespace attnlab;
using namespace attnlab::device;

struct Maps {
  TensorMap q, k, v, o;
};

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

extern "C" __global__ void __launch_bounds__(128)
products(const __grid_constant__ Maps maps, const float* p, float* s, float* o) {
  extern __shared__ __align__(1024) u8 memory[];
  constexpr SlabTile kQ = {.rows = 64, .columns = kHeadDim};
  constexpr SlabTile kKv = {.rows = kKeys, .columns = kHeadDim};
  const u32 sQ = ptx::cvta_to_shared(memory);
  const u32 sK = sQ + kQ.bytes(), sV = sK + kKv.bytes();
  const Ring<1> ring{sV + kKv.bytes()};
  if (threadIdx.x == 0) {
    ring.init(1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ring.full(0), kQ.bytes() + 2 * kKv.bytes());
    for (i32 slab = 0; slab < kQ.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d(sQ + slab * kQ.slab_bytes(), maps.q, 64 * slab, 0, 0, 0,
                                   ring.full(0));
      ptx::cp_async_bulk_tensor_4d(sK + slab * kKv.slab_bytes(), maps.k, 64 * slab, 0, 0, 0,
                                   ring.full(0));
      ptx::cp_async_bulk_tensor_4d(sV + slab * kKv.slab_bytes(), maps.v, 64 * slab, 0, 0, 0,
                                   ring.full(0));
    }
  }
  ring.wait_full(consumer_start());

  Accumulator<1, kKeys / 8> rS;
  ptx::wgmma_fence();
  start_product<F16, kHeadDim / 16>(rS, KMajor<kQ>(sQ, 0), KMajor<kKv>(sK, 0));
  ptx::wgmma_wait_group<0>();
  fence_operand(rS);
  for_own(rS, [&](i32 row, i32 column, float& value) { s[row * kKeys + column] = value; });

  FragmentsA<kKeys / 16> rP;
  for_own(rS, [&](i32 row, i32 column, float& value) { value = p[row * kKeys + column]; });
  round_to<F16>(rP, rS);
  Accumulator<1, kHeadDim / 8> rO;
  rO.clear();
  fence_operand(rO);
  fence_operand(rP);
  ptx::wgmma_fence();
  start_product<F16>(rO, rP, MnMajor<kKv>(sV), ScaleD::one);
  ptx::wgmma_wait_group<0>();
  fence_operand(rO);
  fence_operand(rP);
  for_own(rO, [&](i32 row, i32 column, float& value) { o[row * kHeadDim + column] = value; });

  const i32 warp_row = threadIdx.x / 32 * 16;
  __syncthreads();
  store_accumulator_of_warp<F16, kQ>(rO, sQ, warp_row);
  ptx::fence_proxy_async_shared();
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    for (i32 slab = 0; slab < kQ.slabs(); ++slab) {
      ptx::cp_async_bulk_tensor_4d_store(
          maps.o, 64 * slab, warp_row, 0, 0,
          sQ + slab * kQ.slab_bytes() + warp_row * SlabTile::kRowBytes);
    }
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
  }
}
)",
          .entries = {{.name = "products", .threads = 128, .dynamic_shared_bytes = bytes}},
          .options = {"--device-as-default-execution-space"},
          .must_be_clean = false};  // sums of 256 columns beside P, in one warpgroup of all roles
}

struct Maps {
  TensorMap q, k, v, o;
};

struct Size {
  i64 keys, head_dim;
};

void PrintTo(const Size& size, std::ostream* stream) {
  *stream << size.keys << "x" << size.head_dim;
}

class WarpgroupProduct : public GpuTest, public testing::WithParamInterface<Size> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (gpu().compute_capability != 90) GTEST_SKIP() << "this GPU has no wgmma";
    arena_.emplace(runtime());
  }

  // Draws integers from -4 to 4, rows x columns.
  std::vector<int> integers(i64 rows, i64 columns) {
    std::vector<int> values(static_cast<std::size_t>(rows * columns));
    for (int& value : values) value = static_cast<int>(generator_() % 9) - 4;
    return values;
  }
  Arena::Buffer upload(const std::vector<int>& values) {
    std::vector<std::uint16_t> bits;
    for (const int value : values) bits.push_back(f16_from_f32(static_cast<float>(value)));
    Arena::Buffer buffer = arena_->allocate("operand", bits.size() * sizeof bits[0]);
    runtime().write(buffer.get(), bits.data(), bits.size() * sizeof bits[0]);
    return buffer;
  }
  static TensorMap map(const Arena::Buffer& data, i64 rows, i64 columns, i64 tile_rows) {
    return cuda::make_tensor_map(cuda::slab_of({.data = data.get(),
                                                .strides = {.row = columns},
                                                .rows = rows,
                                                .head_dim = columns,
                                                .tile_rows = tile_rows}));
  }
  template <class T>
  std::vector<T> download(const Arena::Buffer& buffer, i64 count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    runtime().read(values.data(), buffer.get(), values.size() * sizeof(T));
    return values;
  }

  std::mt19937 generator_{3};
  std::optional<Arena> arena_;
};

// Multiplies left (rows, k) right: element (k, n) of `right` is right[n * columns + k] or right[k *
// columns + n].
std::vector<float> product(const std::vector<int>& left, const std::vector<int>& right, i64 k,
                           i64 columns, bool transposed) {
  std::vector<float> sums;
  for (i64 row = 0; row < kRows; ++row) {
    for (i64 n = 0; n < columns; ++n) {
      int sum = 0;
      for (i64 i = 0; i < k; ++i) {
        const i64 place = transposed ? n * k + i : i * columns + n;
        sum += left[static_cast<std::size_t>(row * k + i)] * right[static_cast<std::size_t>(place)];
      }
      sums.push_back(static_cast<float>(sum));
    }
  }
  return sums;
}

TEST_P(WarpgroupProduct, IsExactForSmallIntegers) {
  const auto [keys, head_dim] = GetParam();
  const std::vector<int> q = integers(kRows, head_dim), k = integers(keys, head_dim);
  const std::vector<int> p = integers(kRows, keys), v = integers(keys, head_dim);
  const Arena::Buffer gQ = upload(q), gK = upload(k), gV = upload(v);
  const std::vector<float> p_floats(p.begin(), p.end());
  const Arena::Buffer gP = arena_->allocate("p", p_floats.size() * sizeof(float));
  runtime().write(gP.get(), p_floats.data(), p_floats.size() * sizeof(float));
  const Arena::Buffer gS = arena_->allocate("s", static_cast<u64>(kRows * keys) * sizeof(float));
  const Arena::Buffer gO =
      arena_->allocate("o", static_cast<u64>(kRows * head_dim) * sizeof(float));
  const Arena::Buffer rounded = arena_->allocate("rounded", static_cast<u64>(kRows * head_dim) * 2);

  const auto module = cuda::load(unit(keys, head_dim), gpu());
  const cuda::Kernel<Maps, void*, void*, void*> kernel(*module, unit(keys, head_dim).entries.at(0));
  kernel(cuda::as_stream(runtime().queue()), 1,
         Maps{.q = map(gQ, kRows, head_dim, kRows),
              .k = map(gK, keys, head_dim, keys),
              .v = map(gV, keys, head_dim, keys),
              .o = map(rounded, kRows, head_dim, 16)},
         gP.get(), gS.get(), gO.get());
  runtime().synchronize();

  EXPECT_EQ(download<float>(gS, kRows * keys), product(q, k, head_dim, keys, true));
  const std::vector<float> o = product(p, v, keys, head_dim, false);
  EXPECT_EQ(download<float>(gO, kRows * head_dim), o);
  std::vector<std::uint16_t> halves;
  for (const float value : o) halves.push_back(f16_from_f32(value));
  EXPECT_EQ(download<std::uint16_t>(rounded, kRows * head_dim), halves);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WarpgroupProduct,
                         testing::Values(Size{64, 64}, Size{80, 256}, Size{96, 192}, Size{112, 64},
                                         Size{128, 128}, Size{144, 64}, Size{160, 128},
                                         Size{176, 128}, Size{192, 64}),
                         [](const auto& size) {
                           return std::to_string(size.param.keys) + "x" +
                                  std::to_string(size.param.head_dim);
                         });

}  // namespace
}  // namespace attnlab
