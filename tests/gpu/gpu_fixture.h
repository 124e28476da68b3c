// Shares what tests on a real GPU need: they are skipped with the reason where there is none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "kernels/api/runtime.h"
#include "tests/cli_fixture.h"
#include "tests/paths.h"

namespace attnlab {

// Returns the first GPU. Throws std::out_of_range where there is none.
inline const Device& gpu() {
  static const std::vector<Device> gpus = [] {
    std::vector<Device> found = available_devices();
    std::erase_if(found, [](const Device& device) { return device.backend != Backend::cuda; });
    return found;
  }();
  return gpus.at(0);
}

// Makes a problem packed, with entries of these lengths.
inline void pack(Problem& problem, const std::vector<std::int64_t>& queries,
                 const std::vector<std::int64_t>& keys) {
  problem.batch = static_cast<std::int64_t>(queries.size());
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed, .given = true, .queries = queries, .keys = keys};
}

// Returns where compiled kernels stay: another folder where another compiler stands for NVRTC.
inline std::string gpu_test_cache() {
  const char* const folder = std::getenv("ATTNLAB_GPU_TEST_CACHE");
  return folder == nullptr ? in_build("gpu_test_cache") : folder;
}

// GpuTest is a GPU in this process. Its kernels come from a cache that all tests share and that
// stays, so only the first run compiles.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = why_no_device(Backend::cuda);
    if (!why.empty()) GTEST_SKIP() << why;
    set_compiler({.cache_folder = gpu_test_cache()});
    runtime().set_timeout(20.0);  // seconds
  }
  void TearDown() override { set_compiler({}); }

  static Runtime& runtime() { return runtime_of(gpu()); }
};

// GpuCli runs the real binary on a GPU, in its own process: a fault there is not one of the test.
class GpuCli : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    const std::string why = why_no_device(Backend::cuda);
    if (!why.empty()) GTEST_SKIP() << why;
  }

  std::string environment() const override { return ""; }

  // Runs short points of two heads, timed as briefly as possible; writes records to r.jsonl.
  Result run_points(const std::string& arguments, const std::string& protocol = "",
                    const std::string& cache = gpu_test_cache()) const {
    return run("run --backend cuda --heads 2 --rounds 1 --no-progress --cache-dir '" + cache +
               "' --protocol warmup_seconds=0,warmup_launches=1" +
               (protocol.empty() ? "" : "," + protocol) + " " + arguments);
  }

  std::vector<nlohmann::json> records() const {
    std::istringstream lines(read(folder_ / "r.jsonl"));
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
};

}  // namespace attnlab
