// Tests products of a warpgroup (kernels/device/warpgroup_product.cuh), tile by tile: operands
// arrive by bulk copies as they do in a kernel, results are compared element by element. All are
// small integers, so every sum is exact.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/shared/tile.h"
#include "tests/gpu/product_fixture.h"

namespace attnlab {
namespace {

constexpr i64 kRows = 64;

// Computes S (64, keys) = Q K^T with both factors in shared memory; O (64, head_dim) = P V with P
// in registers, in fp32 and, by way of shared memory and a bulk copy, rounded.
KernelUnit unit(const ProductSize& size) {
  const auto [keys, head_dim] = size;
  const SlabTile q = {.rows = 64, .columns = static_cast<i32>(head_dim)};
  const SlabTile kv = {.rows = static_cast<i32>(keys), .columns = static_cast<i32>(head_dim)};
  const auto bytes = static_cast<u64>(q.bytes() + 2 * kv.bytes() + 64);
  return {.name = "products-" + size.name(),
          .source = "constexpr int kKeys = " + std::to_string(keys) +
                    ", kHeadDim = " + std::to_string(head_dim) + ";" + kProductText + R"(
struct Maps {
  TensorMap q, k, v, o;
};

extern "C" __global__ void __launch_bounds__(128)
products(const __grid_constant__ Maps maps, const float* p, float* s, float* o) {
  extern __shared__ __align__(1024) u8 memory[];
  constexpr SlabTile kQ = {.rows = 64, .columns = kHeadDim};
  constexpr SlabTile kKv = {.rows = kKeys, .columns = kHeadDim};
  const u32 sQ = ptx::cvta_to_shared(memory);
  const u32 sK = sQ + kQ.bytes(), sV = sK + kKv.bytes();
  const Ring<1> ring = make_ring(sV + kKv.bytes());
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ring.full(0), kQ.bytes() + 2 * kKv.bytes());
    start_copies(kQ, maps.q, sQ, ring);
    start_copies(kKv, maps.k, sK, ring);
    start_copies(kKv, maps.v, sV, ring);
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
          .must_be_clean = false};  // sums of 256 columns beside P, in one warpgroup of all roles
}

struct Maps {
  TensorMap q, k, v, o;
};

class WarpgroupProduct : public ProductTest, public testing::WithParamInterface<ProductSize> {};

TEST_P(WarpgroupProduct, IsExactForSmallIntegers) {
  const auto [keys, head_dim] = GetParam();
  const std::vector<int> q = integers(kRows * head_dim), k = integers(keys * head_dim);
  const std::vector<int> p = integers(kRows * keys), v = integers(keys * head_dim);
  const Arena::Buffer gQ = upload_rounded(q, Dtype::f16), gK = upload_rounded(k, Dtype::f16);
  const Arena::Buffer gV = upload_rounded(v, Dtype::f16);
  const Arena::Buffer gP = upload(std::vector<float>(p.begin(), p.end()));
  const Arena::Buffer gS = floats(kRows * keys), gO = floats(kRows * head_dim);
  const Arena::Buffer rounded = arena_->allocate("rounded", static_cast<u64>(kRows * head_dim) * 2);

  const KernelUnit needed = unit(GetParam());
  const auto module = cuda::load(needed, gpu());
  const cuda::Kernel<Maps, void*, void*, void*> kernel(*module, needed.entries.at(0));
  kernel(cuda::as_stream(runtime().queue()), 1,
         Maps{.q = map(gQ, Dtype::f16, kRows, head_dim),
              .k = map(gK, Dtype::f16, keys, head_dim),
              .v = map(gV, Dtype::f16, keys, head_dim),
              .o = map(rounded, Dtype::f16, kRows, head_dim, 16)},
         gP.get(), gS.get(), gO.get());
  runtime().synchronize();

  EXPECT_EQ(download(gS, kRows * keys),
            product({q, head_dim}, {k, head_dim, true}, kRows, keys, head_dim));
  const std::vector<float> o = product({p, keys}, {v, head_dim}, kRows, head_dim, keys);
  EXPECT_EQ(download(gO, kRows * head_dim), o);
  std::vector<std::uint16_t> halves;
  for (const float value : o) halves.push_back(f16_from_f32(value));
  EXPECT_EQ(download<std::uint16_t>(rounded, kRows * head_dim), halves);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WarpgroupProduct,
                         testing::Values(ProductSize{64, 64}, ProductSize{80, 256},
                                         ProductSize{96, 192}, ProductSize{112, 64},
                                         ProductSize{128, 128}, ProductSize{144, 64},
                                         ProductSize{160, 128}, ProductSize{176, 128},
                                         ProductSize{192, 64}),
                         [](const auto& size) { return size.param.name(); });

}  // namespace
}  // namespace attnlab
