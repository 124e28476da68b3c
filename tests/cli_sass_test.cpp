// Runs attnlab sass with the real compiler and nvdisasm; skips where one of the two is not there.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "harness/session/disassembly.h"
#include "tests/cli_fixture.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kUnit = "v3-forward-f16-d64";  // the default: 192x128, with overlap

class CliSass : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    try {
      find_nvdisasm();
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
    const Result compiled = run(
        "compile --kernel minimal --head-dim 64 --arch sm_90a --no-progress " + in_test_cache());
    if (compiled.code == 3) GTEST_SKIP() << compiled.err;
  }

  // Units are compiled once for all tests.
  Result sass(const std::string& arguments, const std::string& settings = "COLUMNS=") const {
    return run("sass " + arguments + " --no-progress " + in_test_cache(), settings);
  }
  static std::string in_test_cache() { return "--cache-dir '" + in_build("sass_test_cache") + "'"; }
  Json json_of(const std::string& arguments, int code = 0) const {
    const Result result = sass(arguments + " --format json");
    EXPECT_EQ(result.code, code) << result.err;
    return Json::parse(result.out);
  }

  // Makes a source tree whose file has `now` in the place of `old`.
  std::string make_tree(const std::string& file, const std::string& old,
                        const std::string& now) const {
    fs::create_directories(folder_ / "tree");
    fs::copy(in_tree("kernels"), folder_ / "tree/kernels", fs::copy_options::recursive);
    std::string text = read(folder_ / "tree" / file);
    const std::size_t place = text.find(old);
    EXPECT_NE(place, std::string::npos) << file << " has no " << old;
    write("tree/" + file, text.replace(place, old.size(), now));
    return (folder_ / "tree").string();
  }
};

// v3's text starts S = Q K^T in four places and, with overlap, O += P V in three: 64 / 16 and
// 128 / 16 wgmmas each.
TEST_F(CliSass, TheWgmmasOfV3AreThoseOfItsSchedule) {
  const Json all = json_of(kUnit + " --arch sm_90a");
  const Json& kernel = all["kernels"][0];
  EXPECT_EQ(kernel["kinds"]["wgmma"], 4 * 4 + 3 * 8);
  EXPECT_EQ(kernel["products"]["of_schedule"][0]["found"], 4 * 4);
  EXPECT_EQ(kernel["products"]["of_schedule"][1]["found"], 3 * 8);
  EXPECT_EQ(kernel["kinds"]["local"], 0);
  EXPECT_EQ(kernel["kinds"]["other"], 0);
  std::size_t of_lines = 0;
  for (const Json& line : kernel["lines"]) of_lines += line["instructions"].get<std::size_t>();
  EXPECT_EQ(of_lines, kernel["instructions"]);
  EXPECT_EQ(kernel["sass"].size(), kernel["instructions"]);
  const Result text = sass(kUnit);
  EXPECT_PRED2(contains, text.out, "The wgmmas are those of the schedule.");
}

TEST_F(CliSass, TheWgmmasOfV3sBackwardAreThoseOfItsSchedule) {
  constexpr std::pair<int, int> kOfAStep[] = {{64, 32}, {128, 32}, {192, 38}, {256, 58}};
  for (const auto& [head_dim, wgmmas] : kOfAStep) {
    const Json all =
        json_of("v3-backward --dtype f16 --pass bwd --head-dim " + std::to_string(head_dim));
    const Json& kernel = all["kernels"][1];
    EXPECT_EQ(kernel["kernel"], "backward");
    EXPECT_EQ(kernel["kinds"]["wgmma"], 2 * wgmmas) << head_dim;
    EXPECT_EQ(kernel["kinds"]["local"], 0) << head_dim;
    EXPECT_EQ(kernel["products"]["of_schedule"].size(), 5U);
    for (const Json& product : kernel["products"]["of_schedule"]) {
      EXPECT_EQ(product["found"], product["scheduled"]) << product;
    }
    EXPECT_EQ(kernel["products"]["other_wgmmas"], 0) << head_dim;
  }
}

// Until the first product of a step starts, a consumer's tensor core has no work. What could stay
// in registers cost a tenth of the time there once: a thread asked for its number anew (S2R), and
// shared memory for its item's heads, rows and tiles, one behind the other: 145, 154 and 90
// instructions.
TEST_F(CliSass, LittleStandsBetweenTheStepsOfV3sBackward) {
  struct Bound {
    int head_dim;
    int instructions;
    int shared_loads;  // of lse and delta, and of dQ that waits to be added
    int reads_of_the_thread;
  };
  constexpr Bound kBounds[] = {
      {64, 110, 16, 1}, {128, 110, 8, 0}, {192, 64, 2, 0}, {256, 64, 2, 0}};
  for (const Bound& bound : kBounds) {
    const Json all =
        json_of("v3-backward --dtype f16 --pass bwd --head-dim " + std::to_string(bound.head_dim));
    const Json& loop = all["kernels"][1]["loops"][0];
    EXPECT_GE(loop["tensor_instructions"], 32) << bound.head_dim;
    const Json& between = loop["between_steps"];
    const auto count = [&](const char* operation) {
      return between["operations"].value(operation, 0);
    };
    EXPECT_LE(between["instructions"], bound.instructions) << between;
    EXPECT_LE(count("LDS"), bound.shared_loads) << between;
    EXPECT_LE(count("S2R") + count("S2UR"), bound.reads_of_the_thread) << between;
    EXPECT_EQ(between["kinds"]["local"], 0) << between;
  }
}

// Without overlap a P V follows each S.
TEST_F(CliSass, OtherSchedulesHaveOtherProducts) {
  const Json all = json_of("v3-forward --dtype f16 --head-dim 64 --overlap 0 --pass fwd");
  const Json& products = all["kernels"][0]["products"];
  EXPECT_EQ(products["of_schedule"][1]["places"], 4);
  for (const Json& product : products["of_schedule"]) {
    EXPECT_EQ(product["found"], product["scheduled"]);
  }
  EXPECT_EQ(products["other_wgmmas"], 0);
}

// On e4m3, promoted without overlap, P V goes by 64 columns: two parts of head_dim 128, in place of
// the 64 registers that would spill with three consumers.
TEST_F(CliSass, PartsOfAPromotedProductAreOfTheSchedule) {
  const std::string unit =
      "v3-forward --dtype e4m3 --head-dim 128 --block 192x128 --stages 2 --overlap 0 --pass fwd";
  const Json all = json_of(unit);
  const Json& kernel = all["kernels"][0];
  const Json& product = kernel["products"]["of_schedule"][1];
  EXPECT_EQ(product["columns"], 64);
  EXPECT_EQ(product["depth"], 32);
  EXPECT_EQ(product["places"], 8);
  EXPECT_EQ(product["found"], product["scheduled"]);
  EXPECT_EQ(kernel["products"]["other_wgmmas"], 0);
  EXPECT_EQ(kernel["kinds"]["local"], 0);
  EXPECT_PRED2(contains, sass(unit).out, "64x64x32");
}

TEST_F(CliSass, AProductThatIsLeftOutIsSeen) {
  // It leaves out the last wgmma of each P V, whose A is in registers.
  const std::string tree =
      make_tree("kernels/device/warpgroup_product.cuh",
                "  for (i32 k = 0; k < kSteps; ++k) {\n"
                "    wgmma_rs<Right::kTransposed>(T{}, sums.at[0], left.pairs[k]",
                "  for (i32 k = 0; k < kSteps - 1; ++k) {\n"
                "    wgmma_rs<Right::kTransposed>(T{}, sums.at[0], left.pairs[k]");
  const Result alone = sass(kUnit + " --kernel-sources '" + tree + "'");
  EXPECT_EQ(alone.code, 1) << alone.err;
  EXPECT_PRED2(contains, alone.out,
               "O += P V: 21 wgmmas in the SASS do not make whole products of");
  const Json diff = json_of(kUnit + " --diff '" + tree + "'", 1);
  EXPECT_EQ(diff["units"][0]["kernel_sources"], "");
  EXPECT_EQ(diff["units"][1]["kernel_sources"], tree);
  const Json& kernel = diff["kernels"][0];
  EXPECT_EQ(kernel["kinds"]["wgmma"], Json({40, 37}));
  EXPECT_EQ(kernel["products"][1]["of_schedule"][0]["found"], 16);
  bool is_in_a_line = false;
  for (const Json& line : kernel["lines"]) {
    is_in_a_line |= contains(line["text"], "start_product<T>(rO, rP") &&
                    line["kinds"]["wgmma"][0] != line["kinds"]["wgmma"][1];
  }
  EXPECT_TRUE(is_in_a_line) << kernel["lines"].dump(1);
}

TEST_F(CliSass, APlaceThatIsLeftOutIsSeen) {
  const std::string tree =
      make_tree("kernels/v3/forward.cuh", "v_ring.when_full(v));\n      start_pv();",
                "v_ring.when_full(v));");
  const Result result = sass(kUnit + " --kernel-sources '" + tree + "'");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_PRED2(contains, result.out, "O += P V: 16 wgmmas in the SASS are 2 products of 8");
}

TEST_F(CliSass, ATreeThatSaysTheSameDiffersInNothing) {
  const std::string tree = make_tree("kernels/v3/forward.cuh", "namespace attnlab::v3 {",
                                     "// A line more.\nnamespace attnlab::v3 {");
  const Json diff = json_of(kUnit + " --diff '" + tree + "'");
  EXPECT_TRUE(diff["kernels"][0]["lines"].empty()) << diff["kernels"][0]["lines"].dump(1);
  EXPECT_EQ(diff["kernels"][0]["instructions"][0], diff["kernels"][0]["instructions"][1]);
  EXPECT_NE(diff["units"][0]["text_sha256"], diff["units"][1]["text_sha256"]);
}

TEST_F(CliSass, UnitsAndArchsCanBeCompared) {
  const Json types = json_of(kUnit + " --diff v3-forward-bf16-d64");
  EXPECT_EQ(types["kernels"][0]["kinds"]["wgmma"], Json({40, 40}));
  EXPECT_PRED2(contains, types["units"][1]["unit"].get<std::string>(), "v3-forward-bf16-d64");
  const Json archs = json_of("minimal-d64 --diff sm_80");
  EXPECT_EQ(archs["units"][0]["arch"], "sm_90a");
  EXPECT_EQ(archs["units"][1]["arch"], "sm_80");
  const Result text = sass("minimal-d64 --diff sm_80");
  EXPECT_PRED2(contains, text.out, "\nOTHER: minimal");
  EXPECT_PRED2(contains, text.out, "kernels/minimal/forward.cuh");
}

TEST_F(CliSass, TheListingShowsTheText) {
  const Result result = sass("minimal-d64 --listing --by-line");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_PRED2(contains, result.out, "\nkernels/minimal/forward.cuh:");
  EXPECT_PRED2(contains, result.out, "  FFMA R");
  EXPECT_PRED2(contains, result.out, "\nkind       instructions     %  operations\n");
}

TEST_F(CliSass, BadCommandsSayWhatThereIs) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "unit is required"},
      {"v3-forwrd", "UNIT: no unit for sm_90a begins with 'v3-forwrd'"},
      {"v3-forward", "units for sm_90a begin with 'v3-forward': v3-forward-f16-d64-"},
      {"v3-forward-f16-d64 --arch sm_80", "UNIT: no unit for sm_80 begins with"},
      {"minimal-d64 --arch sm_1", "--arch: there is no arch 'sm_1'"},
      {"minimal-d64 --diff sm_1", "--arch: there is no arch 'sm_1'"},
      {"minimal-d64 --diff ./nowhere", "--diff: ./nowhere: holds no folder kernels"},
      {"minimal-d64 --diff nothing", "--diff: no unit for sm_90a begins with 'nothing'"},
      {"minimal-d64 --diff sm_80 --listing", "--diff: shows the lines that differ"},
      {"minimal-d64 --format xml", "--format"}};
  for (const auto& [words, message] : cases) {
    const Result result = sass(words);
    EXPECT_EQ(result.code, 2) << words << result.err;
    EXPECT_PRED2(contains, result.err, message);
  }
}

TEST_F(CliSass, NvdisasmOfThePathComesFirst) {
  write("nvdisasm", "#!/bin/sh\necho 'a program of this name' >&2\nexit 7\n");
  fs::permissions(folder_ / "nvdisasm", fs::perms::owner_all);
  const Result result = sass("minimal-d64", "PATH='" + folder_.string() + "':$PATH");
  EXPECT_EQ(result.code, 3);
  EXPECT_PRED2(contains, result.err, "nvdisasm ended with exit status 7: a program of this name");
}

}  // namespace
}  // namespace attnlab
