// Tests what v3's backward is made of, one tile of rows by one of keys: its five products, each
// with its operands where the kernel has them, dS on its way through shared memory, and the sums of
// dQ in device memory. Results are compared element by element. All are small integers, so every
// sum is exact.
#include "kernels/v3/schedule.h"
#include "tests/gpu/product_fixture.h"

namespace attnlab {
namespace {

struct Tile {
  Dtype dtype;
  i32 head_dim, block_m;
  v3::BackwardConfig config() const { return {.head_dim = head_dim, .block_m = block_m}; }
  std::string name() const {
    return std::string(to_string(dtype)) + "_d" + std::to_string(head_dim) + "_" +
           std::to_string(block_m) + "x128";
  }
};

void PrintTo(const Tile& tile, std::ostream* stream) { *stream << tile.name(); }

// Computes S^T = K Q^T and dV = P^T Q (whose operand stands for dO, and dK's dS^T for P^T) of both
// consumers' 64 keys; dS^T, from `factors`, goes to shared memory as dS, and dQ = dS K is added
// `times` times. `rows` is what a bulk copy without a map brings.
KernelUnit unit(const Tile& tile) {
  const v3::BackwardTiles tiles = v3::backward_tiles(tile.config());
  return {.name = "backward-products-" + tile.name(),
          .source = "constexpr int kHeadDim = " + std::to_string(tile.head_dim) +
                    ", kRows = " + std::to_string(tile.block_m) + ";\n" + "#define TYPE " +
                    (tile.dtype == Dtype::f16 ? "F16" : "Bf16") + kProductText + R"(
#include "kernels/device/warp_uniform.cuh"
#include "kernels/ptx/barrier.cuh"
#include "kernels/v3/dq_sums.cuh"
using T = TYPE;

struct Maps {
  TensorMap q, k;
};

constexpr v3::BackwardConfig kConfig = {.head_dim = kHeadDim, .block_m = kRows};

extern "C" __global__ void __launch_bounds__(256)
products(const __grid_constant__ Maps maps, const float* factors, const float* rows, i32 times,
         float* s, float* dv, float* sums, float* copied) {
  extern __shared__ __align__(1024) u8 memory[];
  constexpr v3::BackwardTiles kTiles = v3::backward_tiles(kConfig);
  using Part = v3::DqPart<kConfig>;
  const u32 shared = ptx::cvta_to_shared(memory);
  const u32 sK = shared + kTiles.k(), sQ = shared + kTiles.q_of(0), sDS = shared + kTiles.ds_of(0);
  const Ring<1> ring = make_ring(shared + kTiles.kv_ring());
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ring.full(0), kTiles.kv.bytes() + kTiles.q.bytes() + 4 * kRows);
    start_copies(kTiles.q, maps.q, sQ, ring);
    start_copies(kTiles.kv, maps.k, sK, ring);
    ptx::cp_async_bulk(shared + kTiles.lse_of(0), rows, 4 * kRows, ring.full(0));
  }
  ring.wait_full(consumer_start());
  if (threadIdx.x < kRows) {
    copied[threadIdx.x] = reinterpret_cast<const float*>(memory + kTiles.lse_of(0))[threadIdx.x];
  }

  const i32 warp = warp_uniform(static_cast<i32>(threadIdx.x / 32)), consumer = warp / 4;
  Accumulator<1, kRows / 8> rS;
  ptx::wgmma_fence();
  start_product<T, kHeadDim / 16>(rS, KMajor<kTiles.kv>(sK, 64 * consumer), KMajor<kTiles.q>(sQ, 0));
  ptx::wgmma_wait_group<0>();
  fence_operand(rS);
  for_own(rS, [&](i32 key, i32 row, float& value) { s[key * kRows + row] = value; });

  for_own(rS, [&](i32 key, i32 row, float& value) { value = factors[key * kRows + row]; });
  FragmentsA<kRows / 16> rP;
  round_to<T>(rP, rS);
  store_transposed_of_warp<kTiles.ds>(rP, sDS, 16 * warp);
  ptx::fence_proxy_async_shared();
  Accumulator<1, kHeadDim / 8> rDV;
  rDV.clear();
  fence_operand(rDV);
  fence_operand(rP);
  ptx::wgmma_fence();
  start_product<T>(rDV, rP, MnMajor<kTiles.q>(sQ), ScaleD::one);
  ptx::wgmma_wait_group<0>();
  fence_operand(rDV);
  fence_operand(rP);
  for_own(rDV, [&](i32 key, i32 x, float& value) { dv[key * kHeadDim + x] = value; });

  ptx::barrier_sync(1, 256);
  for (i32 time = 0; time < times; ++time) {
    typename Part::Accumulator rDQ;
    const i32 first = 4 * consumer;  // warp
    ptx::wgmma_fence();
    start_product<T, 128 / 16>(
        rDQ, KMajor<kTiles.ds>(sDS, Part::row(first)),
        MnMajor<kTiles.kv>(sK + Part::column(first) / 64 * kTiles.kv.slab_bytes()));
    ptx::wgmma_wait_group<0>();
    fence_operand(rDQ);
    const i32 part = warp * v3::kDqWarpBytes;
    v3::wait_until_staged_dq_is_read();
    v3::stage_dq(rDQ, memory + kTiles.dq() + part, opaque_lane());
    v3::add_staged_dq(shared + kTiles.dq() + part, sums + part / 4);
  }
  if (threadIdx.x % 32 == 0) ptx::cp_async_bulk_wait_group<0>();
}
)",
          .entries = {{.name = "products",
                       .threads = 256,
                       .dynamic_shared_bytes = static_cast<u64>(tiles.bytes())}}};
}

// Computes products of head dims above 128 (backward_columns.cuh), of one consumer with all keys
// and the first slab: S = Q K^T, whose columns are those of `keys` keys; P, from `factors`, goes to
// shared memory transposed; dV^T = Q^T P, with Q in MN-major and P^T in K-major; dQ^T = K^T P^T,
// with both in MN-major, is added `times` times.
KernelUnit unit_of_columns(i32 head_dim, i32 keys) {
  const v3::BackwardConfig config = {.head_dim = head_dim, .block_m = 64, .block_n = keys};
  return {
      .name = "backward-columns-" + std::to_string(head_dim) + "x" + std::to_string(keys),
      .source = "constexpr int kHeadDim = " + std::to_string(head_dim) +
                ", kKeys = " + std::to_string(keys) + ";\n" + kProductText + R"(
#include "kernels/v3/dq_sums.cuh"

struct Maps {
  TensorMap q, k;
};

constexpr v3::BackwardConfig kConfig = {.head_dim = kHeadDim, .block_m = 64, .block_n = kKeys};

extern "C" __global__ void __launch_bounds__(128)
products(const __grid_constant__ Maps maps, const float* factors, i32 times, float* s, float* dv,
         float* sums) {
  extern __shared__ __align__(1024) u8 memory[];
  constexpr v3::BackwardTiles kTiles = v3::backward_tiles(kConfig);
  constexpr i32 kOwnKeys = kKeys / kConfig.consumers();
  const u32 shared = ptx::cvta_to_shared(memory);
  const u32 sK = shared + kTiles.k(), sQ = shared + kTiles.q_of(0), sP = shared + kTiles.p_of(0);
  const Ring<1> ring = make_ring(shared + kTiles.kv_ring());
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ring.full(0), kTiles.kv.bytes() + kTiles.q.bytes());
    start_copies(kTiles.q, maps.q, sQ, ring);
    start_copies(kTiles.kv, maps.k, sK, ring);
  }
  ring.wait_full(consumer_start());

  const i32 warp = static_cast<i32>(threadIdx.x) / 32;
  for (i32 key = 0; key < kKeys; key += kOwnKeys) {
    Accumulator<1, kOwnKeys / 8> rS;
    ptx::wgmma_fence();
    start_product<F16, kHeadDim / 16>(rS, KMajor<kTiles.q>(sQ, 0), KMajor<kTiles.kv>(sK, key));
    ptx::wgmma_wait_group<0>();
    fence_operand(rS);
    for_own(rS, [&](i32 row, i32 i, float& value) { s[row * kKeys + key + i] = value; });
    for_own(rS, [&](i32 row, i32 i, float& value) { value = factors[row * kKeys + key + i]; });
    store_transposed_of_warp<F16, kTiles.p>(rS, sP, key, 16 * warp);
  }
  ptx::fence_proxy_async_shared();
  __syncthreads();
  Accumulator<1, kKeys / 8> rDV;
  ptx::wgmma_fence();
  start_product<F16, 4>(rDV, MnMajor<kTiles.q>(sQ + kTiles.q.slab_bytes()),
                        KMajor<kTiles.p>(sP, 0));
  ptx::wgmma_wait_group<0>();
  fence_operand(rDV);
  for_own(rDV, [&](i32 x, i32 key, float& value) { dv[key * 64 + x] = value; });
  for (i32 time = 0; time < times; ++time) {
    Accumulator<1, 8> rDQ;
    ptx::wgmma_fence();
    start_product<F16, kKeys / 16>(rDQ, MnMajor<kTiles.kv>(sK + kTiles.kv.slab_bytes()),
                                   MnMajor<kTiles.p>(sP));
    ptx::wgmma_wait_group<0>();
    fence_operand(rDQ);
    v3::add_dq_of_lanes(rDQ, sums + warp * (v3::kDqWarpBytes / 4));
  }
}
)",
      .entries = {{.name = "products",
                   .threads = 128,
                   .dynamic_shared_bytes = static_cast<u64>(v3::backward_tiles(config).bytes())}}};
}

struct Maps {
  TensorMap q, k;
};

class BackwardProduct : public ProductTest, public testing::WithParamInterface<Tile> {
 protected:
  static constexpr i64 kKeys = 128;
};

// Returns sums of dQ, one after the other as they lie, from rows x columns: a warp has 16 x 64 of
// them, in blocks of 8 columns, of which a lane has two columns of two rows.
std::vector<float> as_sums_lie(const std::vector<float>& dq, const Tile& tile) {
  std::vector<float> sums;
  for (i64 warp = 0; warp < 8; ++warp) {
    const i64 first_row = tile.block_m == 128 ? 16 * warp : 16 * (warp % 4);
    const i64 first_column = tile.block_m == 128 ? 0 : warp / 4 * 64;
    for (i64 i = 0; i < 16 * 64; ++i) {
      const i64 block = i / 128, lane = i / 4 % 32, which = i % 4;
      const i64 row = first_row + lane / 4 + which / 2 * 8;
      const i64 column = first_column + 8 * block + lane % 4 * 2 + which % 2;
      sums.push_back(dq[static_cast<std::size_t>(row * tile.head_dim + column)]);
    }
  }
  return sums;
}

TEST_P(BackwardProduct, IsExactForSmallIntegers) {
  const Tile& tile = GetParam();
  const i64 rows = tile.block_m, head_dim = tile.head_dim;
  constexpr i32 kTimes = 3;
  const std::vector<int> q = integers(rows * head_dim), k = integers(kKeys * head_dim);
  const std::vector<int> factors = integers(kKeys * rows);  // keys x rows
  std::vector<float> begun, statistics;
  for (const int value : integers(rows * head_dim)) begun.push_back(static_cast<float>(value));
  for (const int value : integers(rows)) statistics.push_back(static_cast<float>(value));
  const Arena::Buffer gQ = upload_rounded(q, tile.dtype), gK = upload_rounded(k, tile.dtype);
  const Arena::Buffer gFactors = upload(std::vector<float>(factors.begin(), factors.end()));
  const Arena::Buffer gStatistics = upload(statistics), gSums = upload(begun);
  const Arena::Buffer gS = floats(kKeys * rows), gDV = floats(kKeys * head_dim);
  const Arena::Buffer gCopied = floats(rows);

  const KernelUnit needed = unit(tile);
  const auto module = cuda::load(needed, gpu());
  const cuda::Kernel<Maps, void*, void*, i32, void*, void*, void*, void*> kernel(
      *module, needed.entries.at(0));
  kernel(cuda::as_stream(runtime().queue()), 1,
         Maps{.q = map(gQ, tile.dtype, rows, head_dim), .k = map(gK, tile.dtype, kKeys, head_dim)},
         gFactors.get(), gStatistics.get(), kTimes, gS.get(), gDV.get(), gSums.get(),
         gCopied.get());
  runtime().synchronize();

  EXPECT_EQ(download(gCopied, rows), statistics);
  const IntegerMatrix of_k = {k, head_dim}, of_q = {q, head_dim}, of_p = {factors, rows};
  EXPECT_EQ(download(gS, kKeys * rows), product(of_k, {q, head_dim, true}, kKeys, rows, head_dim));
  EXPECT_EQ(download(gDV, kKeys * head_dim), product(of_p, of_q, kKeys, head_dim, rows));
  const std::vector<float> dq = product({factors, rows, true}, of_k, rows, head_dim, kKeys);
  std::vector<float> sums = as_sums_lie(dq, tile);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = kTimes * sums[i] + begun[i];
  EXPECT_EQ(download(gSums, rows * head_dim), sums);
}

INSTANTIATE_TEST_SUITE_P(Tiles, BackwardProduct,
                         testing::Values(Tile{Dtype::f16, 64, 128}, Tile{Dtype::bf16, 64, 128},
                                         Tile{Dtype::f16, 128, 64}, Tile{Dtype::bf16, 128, 64}),
                         [](const auto& instance) { return instance.param.name(); });

struct ColumnTile {
  i32 head_dim, keys;
  std::string name() const { return "d" + std::to_string(head_dim) + "_" + std::to_string(keys); }
};

void PrintTo(const ColumnTile& tile, std::ostream* stream) { *stream << tile.name(); }

class BackwardColumnProduct : public ProductTest, public testing::WithParamInterface<ColumnTile> {};

// Returns the 64 columns of the second slab.
std::vector<int> second_slab(const std::vector<int>& values, i64 head_dim) {
  std::vector<int> slab;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<i64>(i) % head_dim / 64 == 1) slab.push_back(values[i]);
  }
  return slab;
}

TEST_P(BackwardColumnProduct, IsExactForSmallIntegers) {
  const auto [head_dim, keys] = GetParam();
  constexpr i64 kRows = 64;
  constexpr i32 kTimes = 3;
  const std::vector<int> q = integers(kRows * head_dim), k = integers(keys * head_dim);
  const std::vector<int> factors = integers(kRows * keys);  // rows x keys
  std::vector<float> begun;
  for (const int value : integers(kRows * 64)) begun.push_back(static_cast<float>(value));
  const Arena::Buffer gQ = upload_rounded(q, Dtype::f16), gK = upload_rounded(k, Dtype::f16);
  const Arena::Buffer gFactors = upload(std::vector<float>(factors.begin(), factors.end()));
  const Arena::Buffer gSums = upload(begun);
  const Arena::Buffer gS = floats(kRows * keys), gDV = floats(i64{keys} * 64);

  const KernelUnit needed = unit_of_columns(head_dim, keys);
  const auto module = cuda::load(needed, gpu());
  const cuda::Kernel<Maps, void*, i32, void*, void*, void*> kernel(*module, needed.entries.at(0));
  kernel(cuda::as_stream(runtime().queue()), 1,
         Maps{.q = map(gQ, Dtype::f16, kRows, head_dim), .k = map(gK, Dtype::f16, keys, head_dim)},
         gFactors.get(), kTimes, gS.get(), gDV.get(), gSums.get());
  runtime().synchronize();

  const std::vector<int> of_q = second_slab(q, head_dim), of_k = second_slab(k, head_dim);
  EXPECT_EQ(download(gS, kRows * keys),
            product({q, head_dim}, {k, head_dim, true}, kRows, keys, head_dim));
  EXPECT_EQ(download(gDV, i64{keys} * 64),
            product({factors, keys, true}, {of_q, 64}, keys, 64, kRows));
  const std::vector<float> dq = product({factors, keys}, {of_k, 64}, kRows, 64, keys);
  std::vector<float> sums;  // of a warp 16 columns x 64 rows, as its registers have them
  for (i64 i = 0; i < 64 * 64; ++i) {
    const i64 block = i / 128 % 8, lane = i / 4 % 32, which = i % 4;
    const i64 column = i / 1024 * 16 + lane / 4 + which / 2 * 8;
    const i64 row = 8 * block + lane % 4 * 2 + which % 2;
    const auto at = static_cast<std::size_t>(i);
    sums.push_back(kTimes * dq[static_cast<std::size_t>(row * 64 + column)] + begun[at]);
  }
  EXPECT_EQ(download(gSums, 64 * 64), sums);
}

INSTANTIATE_TEST_SUITE_P(Tiles, BackwardColumnProduct,
                         testing::Values(ColumnTile{192, 96}, ColumnTile{256, 80},
                                         ColumnTile{256, 64}),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace attnlab
