// Tests of compiled kernels share these units and an empty cache.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/api/compiler.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/nvrtc.h"
#include "tests/test_folder.h"

namespace attnlab::cuda {

// Returns why nothing can be compiled here; "" if it can.
inline std::string no_compiler() try {
  nvrtc_version();
  return "";
} catch (const MissingLibrary& error) {
  return error.what();
}

// CompilerTest is a test with a compiler and an empty cache.
class CompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_compiler(); !why.empty()) GTEST_SKIP() << why;
    set_compiler({.cache_folder = cache_.path().string()});
  }
  void TearDown() override { set_compiler({}); }

  TestFolder cache_;
};

// Computes y[i] = 2 x[i] with a tile in shared memory.
inline KernelUnit doubling_unit(const std::string& name = "doubling") {
  return {.name = name,
          .source = R"(#include "kernels/shared/base.h"
extern "C" __global__ void __launch_bounds__(128) doubling(float* y, const float* x) {
  __shared__ float tile[128];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = 2.0F * tile[127 - threadIdx.x];
}
)",
          .entries = {{.name = "doubling", .threads = 128, .dynamic_shared_bytes = 1024}}};
}

// Needs far more registers than two blocks of 1024 threads have.
inline KernelUnit spilling_unit() {
  return {.name = "spilling",
          .source = R"(extern "C" __global__ void __launch_bounds__(1024, 2)
spilling(float* y, const float* x) {
  float a[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) a[i] = x[i * threadIdx.x];
  float sum = 0.0F;
#pragma unroll
  for (int j = 1; j < 6; ++j) {
#pragma unroll
    for (int i = 0; i < 48; ++i) sum += a[i] * a[(i * j) % 48] + __sinf(sum);
  }
  y[threadIdx.x] = sum;
}
)",
          .entries = {{.name = "spilling", .threads = 1024}}};
}

// Copies a box of a tensor to shared memory, and from there to `to` as it lies: copy_slab with 4-D
// maps, copy_tile with 5-D maps. Boxes of at most 16 KB; one block.
inline KernelUnit box_copy_unit() {
  constexpr int kThreads = 128;
  constexpr std::uint64_t kSharedBytes = (16 << 10) + 1024;  // and what aligns them
  return {.name = "box-copy",
          .source = R"(#include "kernels/ptx/cvta.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/tma.cuh"
using namespace attnlab;

template <class Copy>
__device__ void copy_box(u32 bytes, u32* to, const Copy& copy) {
  extern __shared__ u8 sMemory[];
  __shared__ u64 sBarrier;
  u8* const sBox = sMemory + (1024 - ptx::cvta_to_shared(sMemory) % 1024) % 1024;
  const u32 barrier = ptx::cvta_to_shared(&sBarrier);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(barrier, bytes);
    copy(ptx::cvta_to_shared(sBox), barrier);
  }
  while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {
  }
  for (u32 i = threadIdx.x; i < bytes / 4; i += blockDim.x) {
    to[i] = reinterpret_cast<const u32*>(sBox)[i];
  }
}

extern "C" __global__ void __launch_bounds__(128)
copy_slab(const __grid_constant__ TensorMap map, u32 bytes, u32* to, i32 c0, i32 c1, i32 c2,
          i32 c3) {
  copy_box(bytes, to, [&](u32 box, u32 barrier) {
    ptx::cp_async_bulk_tensor_4d(box, map, c0, c1, c2, c3, barrier);
  });
}

extern "C" __global__ void __launch_bounds__(128)
copy_tile(const __grid_constant__ TensorMap map, u32 bytes, u32* to, i32 c0, i32 c1, i32 c2,
          i32 c3, i32 c4) {
  copy_box(bytes, to, [&](u32 box, u32 barrier) {
    ptx::cp_async_bulk_tensor_5d(box, map, c0, c1, c2, c3, c4, barrier);
  });
}
)",
          .entries = {
              {.name = "copy_slab", .threads = kThreads, .dynamic_shared_bytes = kSharedBytes},
              {.name = "copy_tile", .threads = kThreads, .dynamic_shared_bytes = kSharedBytes}}};
}

// cluster_sizes: writes to to[block] how many blocks its cluster has. leader, then follower: the
// leader lets the follower start, spins for 1 ms and writes *value = 21 and when it ends; the
// follower writes when it begins, waits for the leader and doubles *value.
inline KernelUnit launch_attributes_unit() {
  return {.name = "launch-attributes",
          .source = R"(#include "kernels/ptx/globaltimer.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
using namespace attnlab;

extern "C" __global__ void cluster_sizes(u32* to) {
  u32 blocks;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(blocks));
  to[blockIdx.x] = blocks;
}

extern "C" __global__ void leader(u32* value, u64* end) {
  ptx::griddepcontrol_launch_dependents();
  const u64 begin = ptx::globaltimer();
  while (ptx::globaltimer() - begin < 1000000) {
  }
  *value = 21;
  *end = ptx::globaltimer();
}

extern "C" __global__ void follower(u32* value, u64* begin) {
  *begin = ptx::globaltimer();
  ptx::griddepcontrol_wait();
  *value *= 2;
}
)",
          .entries = {{.name = "cluster_sizes", .threads = 32},
                      {.name = "leader", .threads = 1},
                      {.name = "follower", .threads = 1}}};
}

}  // namespace attnlab::cuda
