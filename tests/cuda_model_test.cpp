// Runs attnlab model on a GPU that is not here.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/plan/axes.h"
#include "harness/plan/expand.h"
#include "harness/plan/gpus.h"
#include "harness/report/model_report.h"
#include "harness/report/model_tables.h"
#include "harness/testing/sweep_axes.h"
#include "harness/testing/test_support.h"
#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

const ModelJson& kernel_of(const ModelJson& point, const std::string& name) {
  for (const ModelJson& kernel : point["kernels"]) {
    if (kernel["kernel"] == name) return kernel;
  }
  throw std::runtime_error("no kernel " + name);
}

// A block has 163 KiB on an A100, 227 KiB on an H200.
TEST(ModelOfAGpu, CountsTheTilesThatItWouldTake) {
  const auto on = [](const char* gpu) {
    Sweep sweep;
    for (const auto& [axis, text] :
         std::vector<std::pair<const char*, const char*>>{{"kernel", "v1,v3"},
                                                          {"pass", "fwd"},
                                                          {"dtype", "f16"},
                                                          {"head_dim", "256"},
                                                          {"seqlen", "1024"}}) {
      set_axis(sweep, axis, text, axis);
    }
    const Device device = device_of(*parse_gpus(gpu, "--gpu").front());
    return make_model(expand(sweep, builtin_registry(), device), device, parse_gpus(gpu, "--gpu"));
  };
  const ModelJson a100 = on("A100"), h200 = on("H200");
  EXPECT_EQ(a100["kernels_on"]["backend"], "cuda");
  EXPECT_EQ(a100["kernels_on"]["device"], "A100");
  EXPECT_PRED2(contains, render_model(a100, TableFormat::table), "Kernels as on A100.\n");
  const auto v1_bytes = [](const ModelJson& model) {
    return kernel_of(model["points"][0], "v1")["requested"]["bytes"].get<std::int64_t>();
  };
  EXPECT_GT(v1_bytes(a100), v1_bytes(h200));                            // its tile has fewer keys
  EXPECT_EQ(kernel_of(h200["points"][0], "v3")["label"], "v3 128x64");  // as far as it was asked
  EXPECT_PRED2(contains, kernel_of(a100["points"][0], "v3")["reason"].get<std::string>(), "9.0");
}

// A forward and a backward have a tile each; neither is what v1 would make of no memory at all.
TEST(ModelOfAGpu, WhatTwoPassesLeaveOpenIsNoTile) {
  Sweep sweep;
  set_axis(sweep, "kernel", "v1", "kernel");
  set_axis(sweep, "pass", "fwdbwd", "pass");
  set_axis(sweep, "dtype", "f16", "dtype");
  set_axis(sweep, "seqlen", "1024", "seqlen");
  const Device device = device_of(*parse_gpus("H200", "--gpu").front());
  const ModelJson model = make_model(expand(sweep, builtin_registry(), device), device, {});
  EXPECT_EQ(kernel_of(model["points"][0], "v1")["status"], "counted");
  for (const ModelJson& tile : model["points"][0]["tiles"]) EXPECT_GE(tile["block_m"], 16) << tile;
}

TEST_F(Cli, TheModelCountsTheKernelsOfAGpuThatIsNotHere) {
  const Result result =
      run("model --backend cuda --gpu A100,H200 --kernel v1,v2 --dtype f16 --format json");
  ASSERT_EQ(result.code, 0) << result.err;
  const ModelJson model = ModelJson::parse(result.out);
  EXPECT_EQ(model["kernels_on"]["device"], "A100");  // the first that was named
  EXPECT_EQ(model["gpus"].size(), 2u);
  for (const ModelJson& kernel : model["points"][0]["kernels"]) {
    EXPECT_EQ(kernel["backend"], "cuda");
    EXPECT_EQ(kernel["status"], "counted") << kernel["reason"];
  }
}

}  // namespace
}  // namespace attnlab
