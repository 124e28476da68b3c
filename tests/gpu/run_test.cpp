// Runs attnlab run on a real GPU: caches warm and cold, and a peer beside our kernels.
#include <algorithm>
#include <chrono>

#include "harness/base/errors.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

using Json = nlohmann::json;

class GpuRun : public GpuCli {
 protected:
  static void expect_verified(const Json& record) {
    EXPECT_EQ(record.at("status"), "ok") << record.at("reason");
    for (const char* when : {"verify", "verify_timed"}) {
      ASSERT_TRUE(record.at(when).is_array()) << when;
      EXPECT_FALSE(record.at(when).empty()) << when;
      for (const Json& verdict : record.at(when)) EXPECT_EQ(verdict.at("pass"), true) << verdict;
    }
    EXPECT_GT(record.at("time").at("median_s").get<double>(), 0.0);
  }

  // Returns whether a peer did not run because there is no PyTorch that uses the GPU.
  static bool lacks_pytorch(const Result& result) {
    const std::string said = result.out + result.err;
    return contains(said, "PyTorch cannot be imported") || contains(said, "cannot start ") ||
           contains(said, "sees no GPU");
  }
};

TEST_F(GpuRun, TheSecondRunCompilesNothingAndIsQuick) {
  const std::string cache = (folder_ / "cache").string();
  const std::string point = "--kernel minimal --seqlen 256 --out r.jsonl";
  const Result first = run_points(point, "", cache);
  ASSERT_EQ(first.code, kExitGood) << first.out << first.err;
  EXPECT_EQ(first.out.find("Kernels: 0 compiled"), std::string::npos) << first.out;

  std::filesystem::remove(folder_ / "r.jsonl");
  const auto start = std::chrono::steady_clock::now();
  const Result second = run_points(point, "", cache);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(second.code, kExitGood) << second.out << second.err;
  EXPECT_NE(second.out.find("Kernels: 0 compiled"), std::string::npos) << second.out;
  ASSERT_EQ(records().size(), 1U);
  expect_verified(records().front());
  EXPECT_LT(elapsed.count(), 2.0) << "seconds, with a warm cache";
}

TEST_F(GpuRun, ColdCachesAreAPointOfTheirOwn) {
  const std::string point = "--kernel naive --dtype f16 --seqlen 256 --out r.jsonl";
  ASSERT_EQ(run_points(point, "cache=cold").code, kExitGood);
  const Result hot = run_points(point);
  ASSERT_EQ(hot.code, kExitGood) << hot.out << hot.err;
  const std::vector<Json> all = records();
  ASSERT_EQ(all.size(), 2U);
  for (const Json& record : all) expect_verified(record);
  EXPECT_EQ(all[0].at("time").at("cache"), "cold");
  EXPECT_EQ(all[1].at("time").at("cache"), "hot");
  const auto cold_key = all[0].at("key").get<std::string>();
  EXPECT_TRUE(cold_key.ends_with("/cold")) << cold_key;
  EXPECT_TRUE(all[1].at("key").get<std::string>().ends_with("/hot"));
}

// References of all 256 heads take 25 ms by the device's rates, so 10 ms leave some out.
TEST_F(GpuRun, HeadsAreDrawnWhereReferencesHaveLittleTime) {
  const int capability = gpu().compute_capability;
  if (capability != 80 && capability != 90 && capability != 100) {
    GTEST_SKIP() << "this GPU multiplies doubles too slowly for references of its own";
  }
  const std::string point =
      "--kernel v2 --dtype f16 --batch 128 --seqlen 1024 --head-dim 64 --out r.jsonl";
  ASSERT_EQ(run_points(point, "verify_seconds=0.01").code, kExitGood);
  ASSERT_EQ(run_points(point).code, kExitGood);
  const std::vector<Json> all = records();
  ASSERT_EQ(all.size(), 2U);
  for (const Json& record : all) expect_verified(record);
  EXPECT_EQ(all[0].at("protocol").at("verify_seconds"), 0.01);
  EXPECT_FALSE(all[1].at("protocol").contains("verify_seconds"));
  for (const Json& verdict : all[0].at("verify")) {
    EXPECT_GT(verdict.at("coverage"), 0.0) << verdict;
    EXPECT_LT(verdict.at("coverage"), 0.9) << verdict;
    EXPECT_EQ(verdict.at("compared").get<std::int64_t>() % 1024, 0) << verdict;
    EXPECT_EQ(verdict.at("whole_heads"), true) << verdict;
  }
  for (const Json& verdict : all[1].at("verify")) {
    EXPECT_EQ(verdict.at("coverage"), 1.0) << verdict;
    EXPECT_FALSE(verdict.contains("whole_heads")) << verdict;
  }
}

// Where bytes are counted, a launch that finds its codes in a cache makes the point invalid.
TEST_F(GpuRun, ColdPointsOnE4m3ReadTheirCodes) {
  if (gpu().compute_capability != 90) GTEST_SKIP() << "this GPU has no wgmma";
  const Result result =
      run_points("--kernel v3 --dtype e4m3 --seqlen 256 --head-dim 64 --out r.jsonl", "cache=cold");
  ASSERT_EQ(result.code, kExitGood) << result.out << result.err;
  ASSERT_EQ(records().size(), 1U);
  expect_verified(records().front());
}

TEST_F(GpuRun, PointsOnE4m3SayWhatQuantisationTakes) {
  if (gpu().compute_capability != 90) GTEST_SKIP() << "this GPU has no wgmma";
  const Result result =
      run_points("--kernel v3 --dtype e4m3,f16 --seqlen 256 --head-dim 64 --out r.jsonl");
  ASSERT_EQ(result.code, kExitGood) << result.out << result.err;
  ASSERT_EQ(records().size(), 2U);
  for (const Json& record : records()) {
    expect_verified(record);
    if (record.at("problem").at("dtype") == "f16") {
      EXPECT_FALSE(record.contains("quantise"));
      continue;
    }
    const Json& quantise = record.at("quantise");
    EXPECT_EQ(quantise.at("reason"), "");
    EXPECT_GT(quantise.at("median_s").get<double>(), 0.0);
    // q and k are read once, v twice, and all become codes, v twice.
    EXPECT_GT(quantise.at("bytes").get<double>(), 2 * 256 * 64 * (4 + 4 + 8 + 4));
    ASSERT_EQ(quantise.at("compile").size(), 2U);  // a unit for q and k, and one for v
    for (const Json& unit : record.at("compile")) {
      EXPECT_FALSE(unit.at("unit").get<std::string>().starts_with("quantise")) << unit;
    }
  }
}

TEST_F(GpuRun, PyTorchCompetes) {
  const Result result =
      run_points("--kernel naive --peer torch:flash --dtype f16 --seqlen 256 --out r.jsonl");
  if (lacks_pytorch(result)) GTEST_SKIP() << result.out << result.err;
  ASSERT_EQ(result.code, kExitGood) << result.out << result.err;
  const std::vector<Json> all = records();
  ASSERT_EQ(all.size(), 2U);
  for (const Json& record : all) expect_verified(record);
  const auto peer = std::ranges::find_if(
      all, [](const Json& record) { return record.at("kernel") == "torch:flash"; });
  ASSERT_NE(peer, all.end());
  EXPECT_FALSE(peer->at("peer").at("kernels").empty());
  EXPECT_TRUE(peer->at("peer").at("launch_cost_hidden").is_boolean());
  const Json& executed = peer->at("evidence").at("executed");
  EXPECT_FALSE(executed.empty());
  for (const Json& kernel : executed) {
    EXPECT_EQ(kernel.at("grid").size(), 3U) << kernel;
    EXPECT_EQ(kernel.at("block").size(), 3U) << kernel;
    EXPECT_GT(kernel.at("registers"), 0) << kernel;
    EXPECT_TRUE(kernel.at("shared_bytes").is_number()) << kernel;
  }
}

TEST_F(GpuRun, AFunctionCompetesOnE4m3) {
  if (gpu().compute_capability != 90) GTEST_SKIP() << "this GPU has no wgmma";
  const std::string peer = "py:" + in_tree("scripts/peers/example.py") + ":attend";
  const Result result = run_points(
      "--kernel v3 --dtype e4m3 --quant head --quant-v head --head-dim 64 --mask "
      "none,causal --seqlen 256 --out r.jsonl --peer " +
      peer);
  if (lacks_pytorch(result)) GTEST_SKIP() << result.out << result.err;
  ASSERT_EQ(result.code, kExitGood) << result.out << result.err;
  const std::vector<Json> all = records();
  ASSERT_EQ(all.size(), 4U);
  for (const Json& record : all) expect_verified(record);
  EXPECT_EQ(
      std::ranges::count_if(all, [&](const Json& record) { return record.at("kernel") == peer; }),
      2);
}

}  // namespace
}  // namespace attnlab
