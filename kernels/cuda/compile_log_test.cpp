#include "kernels/cuda/compile_log.h"

#include <gtest/gtest.h>

namespace attnlab::cuda {
namespace {

// NVRTC 13.0 wrote this for sm_90a.
constexpr const char* kSpills = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'plain' for 'sm_90a'
ptxas info    : Function properties for plain
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compile time = 3.878 ms
ptxas info    : Compiling entry function 'spills' for 'sm_90a'
ptxas info    : Function properties for spills
ptxas         .     6472 bytes stack frame, 6844 bytes spill stores, 14588 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 6472 bytes cumulative stack size
ptxas info    : Compile time = 2150.212 ms
)";

constexpr const char* kWgmma =
    R"(ptxas info    : (C7519) warpgroup.arrive is injected in around line 169 by compiler to allow use of registers in GMMA in function 'gemm'
ptxas info    : (C7519) warpgroup.arrive is injected in around line 181 by compiler to allow use of registers in GMMA in function 'gemm'
ptxas info    : (C7517) warpgroup.wait is injected in around line 162 by compiler to allow use of registers defined by GMMA in function 'gemm'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'gemm'
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
ptxas info    : Compile time = 15.589 ms
ptxas info    : Function properties for _Z6helperf
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
ptxas info    : Compile time = 1.575 ms
)";

TEST(CompileLog, HasTheFactsOfEveryEntry) {
  const CompileLog log = parse_compile_log(kSpills);
  ASSERT_EQ(log.functions.size(), 2U);
  const FunctionFacts& plain = log.functions[0];
  EXPECT_EQ(plain.name, "plain");
  EXPECT_TRUE(plain.is_entry);
  EXPECT_EQ(plain.registers, 10);
  EXPECT_EQ(plain.static_shared_bytes, 1024);
  EXPECT_EQ(plain.spill_store_bytes, 0);
  EXPECT_EQ(plain.stack_bytes, 0);
  const FunctionFacts& spills = log.functions[1];
  EXPECT_EQ(spills.name, "spills");
  EXPECT_EQ(spills.registers, 32);
  EXPECT_EQ(spills.stack_bytes, 6472);
  EXPECT_EQ(spills.spill_store_bytes, 6844);
  EXPECT_EQ(spills.spill_load_bytes, 14588);
  EXPECT_EQ(spills.static_shared_bytes, 0);
  EXPECT_TRUE(log.advisories.empty());
}

TEST(CompileLog, SpillsAreImpureWhereverTheyAre) {
  EXPECT_EQ(impurities(parse_compile_log(kSpills)),
            "spills: registers spill: 6844 bytes stored, 14588 bytes loaded\n");
  const std::string said = impurities(parse_compile_log(kWgmma));
  EXPECT_NE(said.find("_Z6helperf: registers spill: 4 bytes stored"), std::string::npos) << said;
}

TEST(CompileLog, AdvisoriesComeOnceWithTheirNumber) {
  const CompileLog log = parse_compile_log(kWgmma);
  ASSERT_EQ(log.advisories.size(), 4U);
  EXPECT_EQ(log.advisories[0],
            "C7519: warpgroup.arrive is injected in around line 169 by compiler to allow use of "
            "registers in GMMA in function 'gemm' (2 times)");
  EXPECT_TRUE(log.advisories[1].starts_with("C7517: ")) << log.advisories[1];
  EXPECT_TRUE(log.advisories[2].starts_with("C7511: Potential")) << log.advisories[2];
  EXPECT_TRUE(log.advisories[3].ends_with("at entry. (2 times)")) << log.advisories[3];
  ASSERT_EQ(log.functions.size(), 2U);
  EXPECT_TRUE(log.functions[0].is_entry);
  EXPECT_FALSE(log.functions[1].is_entry);
}

TEST(CompileLog, OnlyWhatCostsSpeedIsImpure) {
  for (const char* code : {"C7508", "C7510", "C7511", "C7515", "C7517", "C7519"}) {
    const std::string line = std::string("ptxas info    : (") + code + ") something\n";
    EXPECT_EQ(impurities(parse_compile_log(line)), std::string(code) + ": something\n");
  }
  const CompileLog other = parse_compile_log("ptxas info    : (C7599) something\n");
  EXPECT_EQ(impurities(other), "");
  EXPECT_EQ(other.advisories, std::vector<std::string>{"C7599: something"});
}

TEST(CompileLog, WarningsAreKept) {
  const CompileLog log = parse_compile_log(
      "kernels/a.cuh(3): warning #177-D: variable \"x\" was declared but never referenced\n"
      "    int x;\n"
      "        ^\n\n"
      "ptxas warning : Value of threads per SM is out of range\n");
  EXPECT_EQ(
      log.advisories,
      (std::vector<std::string>{
          "kernels/a.cuh(3): warning #177-D: variable \"x\" was declared but never referenced",
          "Value of threads per SM is out of range"}));
  EXPECT_TRUE(parse_compile_log("").functions.empty());
}

}  // namespace
}  // namespace attnlab::cuda
