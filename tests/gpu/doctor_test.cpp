// Runs attnlab doctor on a real GPU.
#include <set>

#include "harness/base/errors.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

// It lacks PyTorch, whose import takes longer than all else (GpuRun.PyTorchCompetes needs it).
class GpuDoctor : public GpuCli {
 protected:
  std::string environment() const override { return "ATTNLAB_PYTHON=/nowhere/python "; }
  std::string cache() const { return " --cache-dir '" + gpu_test_cache() + "'"; }
};

TEST_F(GpuDoctor, EverythingEssentialIsThere) {
  const Result result = run("doctor --backend cuda --json" + cache());
  EXPECT_EQ(result.code, kExitGood) << result.out << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("works").at("cuda"), true);
  std::set<std::string> lines;
  for (const Json& check : json.at("checks")) {
    lines.insert(check.at("what"));
    const bool is_ok = check.at("state") == "ok";
    EXPECT_TRUE(is_ok || check.at("essential") == false) << check;
    EXPECT_EQ(check.at("remedy").is_null(), is_ok) << check;
  }
  for (const char* name :
       {"driver", "GPU", "NVRTC", "compiler worker", "cuBLAS", "CUPTI", "NVML", "GPU 0 MIG",
        "GPU 0 processes", "GPU 0 clock limits", "GPU 0 power cap", "GPU 0 ECC", "GPU 0 telemetry",
        "GPU 0 timer", "GPU 0 counters", "GPU 0 kernels"}) {
    EXPECT_TRUE(lines.contains(name)) << name;
  }
}

TEST_F(GpuDoctor, AHiddenGpuIsMissingOnlyForWhoWantsIt) {
  ASSERT_EQ(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);  // of the programs that are started
  const Result automatic = run("doctor");
  const Result cuda = run("doctor --backend cuda");
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(automatic.code, kExitGood) << automatic.out;
  EXPECT_EQ(cuda.code, kExitEnvironment) << cuda.out;
}

}  // namespace
}  // namespace attnlab
