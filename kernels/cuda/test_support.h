// What the tests of compiled kernels share: units, a cache folder that goes away.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "kernels/api/compiler.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/nvrtc.h"

namespace attnlab::cuda {

// A folder of its own in the temporary folder; gone with the object.
class TestFolder {
 public:
  TestFolder() {
    static int count = 0;
    const std::string name =
        "attnlab-cuda-" + std::to_string(getpid()) + "-" + std::to_string(++count);
    path_ = std::filesystem::temp_directory_path() / name;
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::size_t num_files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      count += entry.is_regular_file() ? 1 : 0;
    }
    return count;
  }

 private:
  std::filesystem::path path_;
};

// Why nothing can be compiled here; "" if it can.
inline std::string no_compiler() try {
  nvrtc_version();
  return "";
} catch (const MissingLibrary& error) {
  return error.what();
}

// A test with a compiler and an empty cache.
class CompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = no_compiler(); !why.empty()) GTEST_SKIP() << why;
    set_compiler({.cache_folder = cache_.path().string()});
  }
  void TearDown() override { set_compiler({}); }

  TestFolder cache_;
};

// y[i] = 2 x[i] with a tile in shared memory.
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

}  // namespace attnlab::cuda
