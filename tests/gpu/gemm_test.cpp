// Builds a persistent matrix product out of the blocks that the kernels of attention are made of:
// rings and bulk copies, products of warpgroups, roles with registers of their own. No kernel uses
// it. It says whether the blocks are right and fast apart from all softmax: its sums are exact, and
// its speed stands beside cuBLAS's.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <ostream>

#include "kernels/cuda/blas.h"
#include "kernels/cuda/peak_kernels.h"
#include "kernels/cuda/test_support.h"
#include "kernels/shared/tile.h"
#include "tests/gpu/product_fixture.h"

namespace attnlab {
namespace {

// Computes C (m, n) = A B^T, A (m, k) and B (n, k), all f16 and row-major, sums in fp32.
constexpr i32 kBlockM = 128, kBlockN = 256, kBlockK = 64;
constexpr i32 kConsumers = 2;  // warpgroups of 64 rows each
constexpr i32 kStages = 4;
// This many rows of tiles run at once. Of 132 tiles 16 rows by 8 columns read least: a tile's rows
// of A are half the bytes of its rows of B.
constexpr i32 kGroup = 16;

KernelUnit gemm_unit() {
  constexpr SlabTile kTileA = {.rows = kBlockM, .columns = kBlockK};
  constexpr SlabTile kTileB = {.rows = kBlockN, .columns = kBlockK};
  constexpr SlabTile kPieceC = {.rows = 16, .columns = SlabTile::kColumns};
  constexpr i32 kWarps = 4 * kConsumers;
  constexpr i32 kBarrierBytes = 2 * 8 * kStages;
  constexpr i32 kBytes =
      kStages * (kTileA.bytes() + kTileB.bytes()) + 2 * kWarps * kPieceC.bytes() + kBarrierBytes;
  return {.name = "gemm",
          .source = "constexpr int kBlockM = " + std::to_string(kBlockM) + ", kBlockN = " +
                    std::to_string(kBlockN) + ", kBlockK = " + std::to_string(kBlockK) +
                    ", kConsumers = " + std::to_string(kConsumers) + ", kStages = " +
                    std::to_string(kStages) + ", kGroup = " + std::to_string(kGroup) + ";" + R"(
#include "kernels/device/ring.cuh"
#include "kernels/device/warpgroup_product.cuh"
#include "kernels/ptx/fence.cuh"
#include "kernels/ptx/setmaxnreg.cuh"
#include "kernels/ptx/tma.cuh"
using namespace attnlab;
using namespace attnlab::device;

// A thread is launched with 168 registers; the producer gives what the consumers take.
constexpr i32 kThreads = (1 + kConsumers) * kWarpgroup;
constexpr i32 kProducerRegisters = 24, kConsumerRegisters = 240;
constexpr i32 kSlabs = kBlockN / SlabTile::kColumns;  // of a tile of C

constexpr SlabTile kTileA = {.rows = kBlockM, .columns = kBlockK};
constexpr SlabTile kTileB = {.rows = kBlockN, .columns = kBlockK};
constexpr SlabTile kPieceC = {.rows = 16, .columns = SlabTile::kColumns};  // of a warp

struct Maps {
  TensorMap a, b, c;
};

// Work has the numbers of tiles of C, and of steps along k of each.
struct Work {
  i32 m_blocks, n_blocks, k_blocks;
  __device__ i32 tiles() const { return m_blocks * n_blocks; }
};

// Blocks that are next to one another in this order run at once, and what they share the L2 reads
// once: so they go down kGroup rows of tiles, then to the next column of tiles.
struct Tile {
  i32 m, n;

  __device__ Tile(const Work& work, i32 index) {
    const i32 in_group = kGroup * work.n_blocks;
    const i32 first = index / in_group * kGroup;
    const i32 rows = min(kGroup, work.m_blocks - first);
    m = first + index % in_group % rows;
    n = index % in_group / rows;
  }
};

// Memory maps the shared memory of a block, from its address on.
struct Memory {
  u32 begin;

  __device__ u32 a(i32 stage) const { return begin + stage * kTileA.bytes(); }
  __device__ u32 b(i32 stage) const { return a(kStages) + stage * kTileB.bytes(); }
  // Each warp has two pieces: one is filled while the other is stored.
  __device__ u32 c(i32 warp, i32 piece) const {
    return b(kStages) + (2 * warp + piece % 2) * kPieceC.bytes();
  }
  __device__ Ring<kStages> ring() const { return {c(4 * kConsumers, 0)}; }
};

// One thread runs this: ahead of the consumers, also into their next tile.
__device__ void load(const Maps& maps, const Work& work, const Memory& memory) {
  const Ring<kStages> ring = memory.ring();
  PipelineState stage = producer_start();
  for (i32 index = blockIdx.x; index < work.tiles(); index += gridDim.x) {
    const Tile tile(work, index);
    for (i32 k = 0; k < work.k_blocks; ++k) {
      ring.wait_empty(stage);
      const u32 full = ring.full(stage.stage);
      ptx::mbarrier_arrive_expect_tx(full, kTileA.bytes() + kTileB.bytes());
      ptx::cp_async_bulk_tensor_4d(memory.a(stage.stage), maps.a, k * kBlockK, tile.m * kBlockM, 0,
                                   0, full);
      ptx::cp_async_bulk_tensor_4d(memory.b(stage.stage), maps.b, k * kBlockK, tile.n * kBlockN, 0,
                                   0, full);
      stage.advance(kStages);
    }
  }
}

// Each warp stores its 16 rows, rounded, slab by slab. The last stores of a tile go on while the
// next one is multiplied.
__device__ void store(const Accumulator<1, kBlockN / 8>& rC, const Maps& maps, const Tile& tile, i32 warp,
                      const Memory& memory) {
  const bool is_first_lane = threadIdx.x % kWarp == 0;
#pragma unroll
  for (i32 slab = 0; slab < kSlabs; ++slab) {
    constexpr i32 kColumns = SlabTile::kColumns / 8;
    Accumulator<1, kColumns> rPiece;
#pragma unroll
    for (i32 c = 0; c < kColumns; ++c) {
#pragma unroll
      for (i32 i = 0; i < 4; ++i) rPiece.at[0][c][i] = rC.at[0][kColumns * slab + c][i];
    }
    if (is_first_lane) ptx::cp_async_bulk_wait_group_read<1>();  // this place, two slabs ago
    __syncwarp();
    const u32 sPiece = memory.c(warp, slab);
    store_accumulator_of_warp<F16, kPieceC>(rPiece, sPiece, 0);
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (is_first_lane) {
      ptx::cp_async_bulk_tensor_4d_store(maps.c, tile.n * kBlockN + slab * SlabTile::kColumns,
                                         tile.m * kBlockM + 16 * warp, 0, 0, sPiece);
      ptx::cp_async_bulk_commit_group();
    }
  }
}

// A warpgroup runs this, on 64 rows of each tile. Products of a step are under way while the next
// one's are started; once they have ended, their stage goes back.
__device__ void consume(const Maps& maps, const Work& work, const Memory& memory) {
  const Ring<kStages> ring = memory.ring();
  const i32 warp = __shfl_sync(0xFFFFFFFFu, threadIdx.x / kWarp, 0) - 4;  // of the consumers
  const i32 first_row = warp / 4 * 64;
  const bool is_first_thread = threadIdx.x % kWarpgroup == 0;
  Accumulator<1, kBlockN / 8> rC;
  PipelineState stage = consumer_start();
  for (i32 index = blockIdx.x; index < work.tiles(); index += gridDim.x) {
    PipelineState before = stage;
    for (i32 k = 0; k < work.k_blocks; ++k) {
      ring.wait_full(stage);
      ptx::wgmma_fence();
      start_product<F16, kBlockK / 16>(rC, KMajor<kTileA>(memory.a(stage.stage), first_row),
                                       KMajor<kTileB>(memory.b(stage.stage), 0),
                                       k == 0 ? ScaleD::zero : ScaleD::one);
      ptx::wgmma_wait_group<1>();
      if (k > 0 && is_first_thread) ring.release(before);
      before = stage;
      stage.advance(kStages);
    }
    ptx::wgmma_wait_group<0>();
    fence_operand(rC);
    if (is_first_thread) ring.release(before);
    store(rC, maps, Tile(work, index), warp, memory);
  }
  // Nobody may take the block's memory away while it is read.
  if (threadIdx.x % kWarp == 0) ptx::cp_async_bulk_wait_group_read<0>();
}

extern "C" __global__ void __launch_bounds__(kThreads, 1)
gemm(const __grid_constant__ Maps maps, Work work) {
  extern __shared__ __align__(1024) u8 shared_memory[];
  const Memory memory{ptx::cvta_to_shared(shared_memory)};
  if (threadIdx.x == 0) {
    memory.ring().init(kConsumers);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    ptx::setmaxnreg_dec<kProducerRegisters>();
    if (threadIdx.x == 0) load(maps, work, memory);
  } else {
    ptx::setmaxnreg_inc<kConsumerRegisters>();
    consume(maps, work, memory);
  }
}
)",
          .entries = {{.name = "gemm",
                       .threads = 32 * (4 + kWarps),
                       .dynamic_shared_bytes = static_cast<u64>(kBytes)}}};
}

struct Maps {
  TensorMap a, b, c;
};

struct Work {
  i32 m_blocks, n_blocks, k_blocks;
};

struct Size {
  i64 m, n, k;
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

// Gemm is the kernel, ready for launches on three matrices.
class Gemm {
 public:
  Gemm(const Size& size, const void* a, const void* b, void* c)
      : module_(cuda::load(gemm_unit(), gpu())),
        kernel_(*module_, gemm_unit().entries.at(0)),
        maps_{.a = map(a, size.m, size.k, kBlockM),
              .b = map(b, size.n, size.k, kBlockN),
              .c = map(c, size.m, size.n, 16)},
        work_{.m_blocks = static_cast<i32>(ceil_div<i64>(size.m, kBlockM)),
              .n_blocks = static_cast<i32>(ceil_div<i64>(size.n, kBlockN)),
              .k_blocks = static_cast<i32>(ceil_div<i64>(size.k, kBlockK))} {}

  void operator()(CUstream stream, u64 blocks) const { kernel_(stream, blocks, maps_, work_); }

 private:
  static TensorMap map(const void* data, i64 rows, i64 columns, i64 tile_rows) {
    return cuda::make_tensor_map(cuda::slab_of({.data = data,
                                                .strides = {.row = columns},
                                                .rows = rows,
                                                .head_dim = columns,
                                                .tile_rows = tile_rows}));
  }

  std::shared_ptr<const cuda::Module> module_;
  cuda::Kernel<Maps, Work> kernel_;
  Maps maps_;
  Work work_;
};

class GemmTest : public ProductTest {
 protected:
  Arena::Buffer halves(const char* name, i64 count) {
    return arena_->allocate(name, static_cast<u64>(count) * sizeof(u16));
  }
  static CUstream stream() { return cuda::as_stream(runtime().queue()); }
};

struct SmallCase {
  Size size;
  u64 blocks;  // of the grid: fewer than tiles, so that blocks go on to a next one
  const char* what;
};

void PrintTo(const SmallCase& small, std::ostream* stream) {
  const auto& [m, n, k] = small.size;
  *stream << "m " << m << ", n " << n << ", k " << k << ", " << small.blocks << " blocks";
}

class GemmSums : public GemmTest, public testing::WithParamInterface<SmallCase> {};

// Sums of small integers are exact in fp32, and rounded once.
TEST_P(GemmSums, AreExactForSmallIntegers) {
  const auto [m, n, k] = GetParam().size;
  const std::vector<int> a = integers(m * k), b = integers(n * k);
  const Arena::Buffer gA = upload_rounded(a, Dtype::f16), gB = upload_rounded(b, Dtype::f16);
  const Arena::Buffer gC = halves("c", m * n);
  const Gemm gemm(GetParam().size, gA.get(), gB.get(), gC.get());
  gemm(stream(), GetParam().blocks);
  const std::vector<u16> c = download<u16>(gC, m * n);
  EXPECT_EQ(arena_->restore_guards(), "");
  for (i64 row = 0; row < m; ++row) {
    for (i64 column = 0; column < n; ++column) {
      const int* const left = a.data() + row * k;
      const int* const right = b.data() + column * k;
      int sum = 0;
      for (i64 i = 0; i < k; ++i) sum += left[i] * right[i];
      const u16 got = c[static_cast<std::size_t>(row * n + column)];
      ASSERT_EQ(got, f16_from_f32(static_cast<float>(sum)))
          << "row " << row << ", column " << column << ": " << f32_from_f16(got) << " instead of "
          << sum;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, GemmSums,
                         testing::Values(SmallCase{{512, 512, 256}, 3, "whole_tiles"},
                                         SmallCase{{200, 328, 136}, 2, "partial_tiles"},
                                         SmallCase{{2180, 264, 72}, 4, "two_groups"},
                                         SmallCase{{64, 8, 64}, 2, "one_step"}),
                         [](const auto& small) { return std::string(small.param.what); });

class GemmUnit : public cuda::CompilerTest {};

TEST_F(GemmUnit, CompilesCleanly) {
  const Compilation made = cuda::compile(gemm_unit(), "sm_90a").compilation;
  EXPECT_EQ(made.error, "");  // also where registers spill or ptxas has something to say
  ASSERT_EQ(made.entries.size(), 1U);
  EXPECT_EQ(made.entries.at(0).stack_bytes, 0);
}

// GemmSpeed times it and cuBLAS in turns, on values drawn from N(0,1): zeros take less power, which
// is higher clocks.
class GemmSpeed : public GemmTest {
 protected:
  static constexpr Size kSize = {8192, 8192, 8192};
  static constexpr int kRounds = 15;
  static constexpr int kLaunches = 50;         // of a sample, which takes about 0.1 s
  static constexpr int kWarmUpRounds = 10;     // until clocks have settled under the power limit
  static constexpr double kLeastRatio = 0.95;  // of cuBLAS's speed

  void SetUp() override {
    GemmTest::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("ATTNLAB_EMULATED") != nullptr) {
      GTEST_SKIP() << "the emulated GPU has no cuBLAS, and no speed";
    }
    try {
      cuda::blas_library();
    } catch (const cuda::MissingLibrary& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // Returns the seconds of a launch.
  template <class Launch>
  static double sample(const Launch& launch) {
    return runtime().seconds_of(kLaunches, [&](int) { launch(); }, {}) / kLaunches;
  }
  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }
  // Both round once, up to half a unit of the last place. Before that their partial sums, most of
  // them below 200, lose up to 2^-23 of themselves at each of 512 additions of 16 products.
  static double bound(float value) { return 0x1p-10 * std::abs(value) + 2 * 512 * 200 * 0x1p-23; }
};

TEST_F(GemmSpeed, IsNearCublas) {
  const auto [m, n, k] = kSize;
  const Arena::Buffer factors = halves("a, b", (m + n) * k);
  const Arena::Buffer ours = halves("c", m * n), theirs = halves("c of cuBLAS", m * n);
  const u64 workspace_bytes = cuda::Blas::workspace_bytes(gpu());
  const Arena::Buffer workspace = arena_->allocate("workspace", workspace_bytes);
  const cuda::PeakKernels kernels(gpu());
  kernels.fill_normal(stream(), Dtype::f16, factors.get(), static_cast<u64>((m + n) * k));
  const void* const b = cuda::behind(factors.get(), static_cast<u64>(m * k) * sizeof(u16));

  const Gemm gemm(kSize, factors.get(), b, ours.get());
  const auto launch_ours = [&] { gemm(stream(), static_cast<u64>(gpu().multiprocessors)); };
  cuda::Blas& blas = cuda::Blas::of(gpu());
  blas.use(stream(), workspace.get(), workspace_bytes);
  const cuda::Gemm product = {.rows = m,
                              .columns = n,
                              .inner = k,
                              .left = {.row_stride = k},
                              .right = {.row_stride = k, .transposed = cuda::Transposed::yes},
                              .result = {.row_stride = n}};
  const cuda::GemmTypes types = {.factors = Dtype::f16, .result = Dtype::f16};
  const auto launch_theirs = [&] { blas.run(product, types, factors.get(), b, theirs.get()); };

  launch_ours();
  launch_theirs();
  const std::vector<u16> c = download<u16>(ours, m * n);
  const std::vector<u16> expected = download<u16>(theirs, m * n);
  EXPECT_EQ(arena_->restore_guards(), "");
  for (std::size_t i = 0; i < c.size(); ++i) {
    const float got = f32_from_f16(c[i]), want = f32_from_f16(expected[i]);
    if (!(std::abs(got - want) <= bound(want))) {
      FAIL() << "row " << static_cast<i64>(i) / n << ", column " << static_cast<i64>(i) % n << ": "
             << got << ", and cuBLAS has " << want;
    }
  }

  std::vector<double> our_seconds, their_seconds;
  for (int round = -kWarmUpRounds; round < kRounds; ++round) {
    const bool ours_first = round % 2 == 0;
    double our_sample = ours_first ? sample(launch_ours) : 0.0;
    const double their_sample = sample(launch_theirs);
    if (!ours_first) our_sample = sample(launch_ours);
    if (round < 0) continue;
    our_seconds.push_back(our_sample);
    their_seconds.push_back(their_sample);
  }
  const double our_rate = kSize.flops() / median(our_seconds);
  const double their_rate = kSize.flops() / median(their_seconds);
  const double ratio = our_rate / their_rate;
  std::cout << 1e-12 * our_rate << " TFLOP/s, cuBLAS " << 1e-12 * their_rate
            << " TFLOP/s: " << ratio << " times its speed (" << m << "x" << n << "x" << k
            << " f16, N(0,1), medians "
            << "of " << kRounds << " rounds of " << kLaunches << " launches, " << gpu().name
            << ")\n";
  RecordProperty("tflops_per_s", std::to_string(1e-12 * our_rate));
  RecordProperty("cublas_tflops_per_s", std::to_string(1e-12 * their_rate));
  RecordProperty("ratio", std::to_string(ratio));
  EXPECT_GE(ratio, kLeastRatio);
  // Neither may be faster than the chip: something was not done, or not timed.
  const double peak = 4096.0 * gpu().multiprocessors * gpu().max_clock_hz;
  EXPECT_LE(our_rate, peak);
  EXPECT_LE(their_rate, peak);
}

}  // namespace
}  // namespace attnlab
