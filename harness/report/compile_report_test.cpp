#include "harness/report/compile_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"

namespace attnlab {
namespace {

std::vector<Compilation> compilations() {
  Compilation good{.unit = "v2-f16", .arch = "sm_90a", .compiler = "NVRTC 13.0", .seconds = 1.234};
  good.entries = {{.entry = {.name = "forward", .threads = 384, .dynamic_shared_bytes = 100'000},
                   .registers = 168,
                   .static_shared_bytes = 512,
                   .blocks_per_multiprocessor = 1,
                   .occupancy = 0.1875},
                  {.entry = {.name = "merge", .threads = 128},
                   .registers = 32,
                   .spill_store_bytes = 8,
                   .spill_load_bytes = 16,
                   .blocks_per_multiprocessor = 16,
                   .occupancy = 1.0}};
  good.advisories = {"C7508: 'setmaxnreg' ignored"};
  Compilation cached{.unit = "naive", .arch = "sm_80", .compiler = "NVRTC 13.0", .seconds = 0.5};
  cached.from_cache = true;
  cached.entries = {{.entry = {.name = "softmax", .threads = 64}, .registers = 20}};
  const Compilation failed{
      .unit = "bad", .arch = "sm_80", .error = "kernels/bad.cuh(3): error: expected a \";\""};
  return {good, cached, failed};
}

TEST(CompileReport, TableHasARowAKernel) {
  EXPECT_EQ(render_compilations(compilations(), TableFormat::table),
            R"(                                               shared bytes    occupancy
unit    kernel   arch    registers  spills  static  dynamic  blocks    %       s
--------------------------------------------------------------------------------
v2-f16  forward  sm_90a        168       0     512   100000       1   19    1.23
v2-f16  merge    sm_90a         32    24 B       0        0      16  100
naive   softmax  sm_80          20       0       0        0       -    -  cached
bad     -        sm_80           -       -       -        -       -    -  failed

v2-f16 for sm_90a: C7508: 'setmaxnreg' ignored

bad for sm_80 failed:
kernels/bad.cuh(3): error: expected a ";"

)");
  EXPECT_TRUE(render_compilations(compilations(), TableFormat::markdown).starts_with("| unit "));
  EXPECT_EQ(render_compilations({}, TableFormat::table), "");
}

TEST(CompileReport, DataHasEveryNumber) {
  const auto rows = nlohmann::json::parse(render_compilations(compilations(), TableFormat::json));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0]["kernel"], "forward");
  EXPECT_EQ(rows[0]["registers"], 168);
  EXPECT_EQ(rows[0]["dynamic_shared_bytes"], 100'000);
  EXPECT_EQ(rows[0]["occupancy"], 0.1875);
  EXPECT_EQ(rows[0]["compile_s"], 1.234);
  EXPECT_EQ(rows[1]["spill_load_bytes"], 16);
  EXPECT_EQ(rows[2]["from_cache"], true);
  EXPECT_EQ(rows[3]["error"], "kernels/bad.cuh(3): error: expected a \";\"");
  const std::string csv = render_compilations(compilations(), TableFormat::csv);
  EXPECT_TRUE(csv.starts_with("unit,kernel,arch,registers,spill_store_bytes,")) << csv;
  EXPECT_NE(csv.find("\nv2-f16,merge,sm_90a,32,8,16,0,0,0,128,16,1.0,1.234,false,NVRTC 13.0,"),
            std::string::npos)
      << csv;
}

TEST(CompileReport, SummaryAddsUp) {
  EXPECT_EQ(
      summarize(compilations(), 0.75),
      "3 units, 3 kernels: 1 compiled in 1.2 s (0.8 s of waiting), 1 from the cache, 1 failed. "
      "NVRTC 13.0.\n");
}

}  // namespace
}  // namespace attnlab
