// Finds in a kernel's code what is known of its text, by the real compiler and nvdisasm.
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/report/sass_unit.h"
#include "harness/session/disassembly.h"
#include "kernels/api/compiler.h"
#include "tests/paths.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

class SassCounting : public testing::Test {
 protected:
  void SetUp() override {
    set_compiler({.cache_folder = (folder_.path() / "cache").string(),
                  .worker_program = in_build("attnlab")});
    try {
      nvdisasm_ = find_nvdisasm();
      compile_ahead(std::vector<CompileJob>{{unit("*y = 1.0F;"), "sm_90a"}}, 1, [](const auto&) {});
    } catch (const std::runtime_error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { set_compiler({}); }

  static KernelUnit unit(const std::string& body, const std::string& bounds = "") {
    return {.name = "counted",
            .source = "extern \"C\" __global__ void " + bounds + " f(float* y, int n) {\n" + body +
                      "\n}\n",
            .entries = {{.name = "f", .threads = 128}},
            .must_be_clean = false};
  }
  SassUnit take(const std::string& body, const std::string& bounds = "") const {
    return take_apart({unit(body, bounds), "sm_90a"}, nvdisasm_, false);
  }
  SassCounts count(const std::string& body) const { return count_kinds(take(body).kernels.at(0)); }

  TestFolder folder_;
  std::string nvdisasm_;
};

std::size_t of(const SassCounts& counts, SassKind kind, const std::string& operation) {
  const auto& operations = counts.operations[static_cast<std::size_t>(kind)];
  const auto found = operations.find(operation);
  return found == operations.end() ? 0 : found->second;
}

TEST_F(SassCounting, FusedMultiplyAddsOfAChain) {
  for (const std::size_t length : {1U, 37U, 100U}) {
    const SassCounts counts = count(
        "float a = y[0], b = y[1], c = y[2];\n#pragma unroll\n"
        "for (int i = 0; i < " +
        std::to_string(length) + "; ++i) a = __fmaf_rn(a, b, c);\ny[threadIdx.x] = a;");
    EXPECT_EQ(of(counts, SassKind::fp32, "FFMA"), length);
    EXPECT_EQ(of(counts, SassKind::global, "LDG"), 3U);
    EXPECT_EQ(of(counts, SassKind::global, "STG"), 1U);
    EXPECT_EQ(counts[SassKind::other], 0U);
  }
}

TEST_F(SassCounting, ALoopCountsOnce) {
  const SassCounts counts = count(
      "float a = y[0];\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) a = __fmaf_rn(a, a, a);\n"
      "y[0] = a;");
  EXPECT_EQ(of(counts, SassKind::fp32, "FFMA"), 1U);
}

TEST_F(SassCounting, ProductsOfAWarp) {
  for (const std::size_t products : {1U, 5U}) {
    std::string body = "unsigned a = n; float d[4] = {y[0], y[1], y[2], y[3]};\n";
    for (std::size_t i = 0; i < products; ++i) {
      body +=
          "asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};\" : \"+f\"(d[0]), \"+f\"(d[1]), "
          "\"+f\"(d[2]), \"+f\"(d[3]) : \"r\"(a));\n";
    }
    const SassCounts counts = count(body + "y[0] = d[0] + d[1] + d[2] + d[3];");
    EXPECT_EQ(of(counts, SassKind::mma, "HMMA"), products);
    EXPECT_EQ(counts[SassKind::wgmma], 0U);
  }
}

// Returns the bytes that an instruction of this width moves: STL, STL.64, STL.128.
std::int64_t bytes_of(const SassInstruction& instruction) {
  const std::string_view opcode = opcode_of(instruction);
  if (opcode.find(".128") != std::string_view::npos) return 16;
  return opcode.find(".64") != std::string_view::npos ? 8 : 4;
}

// 96 sums are alive at once, in 32 registers.
const char* const kSpilling =
    "float a[96];\n#pragma unroll\nfor (int i = 0; i < 96; ++i) a[i] = y[i];\n"
    "__syncthreads();\n#pragma unroll 1\nfor (int k = 0; k < n; ++k) {\n#pragma unroll\n"
    "for (int i = 0; i < 96; ++i) a[i] = a[i] * a[(i + 7) % 96] + y[k];\n}\n"
    "#pragma unroll\nfor (int i = 0; i < 96; ++i) y[i] = a[i];";

TEST_F(SassCounting, SpillsAreTheBytesOfTheCompilersLog) {
  const SassUnit taken = take(kSpilling, "__launch_bounds__(1024, 2)");
  ASSERT_EQ(taken.compilation.error, "");
  std::int64_t stored = 0, loaded = 0;
  for (const SassInstruction& instruction : taken.kernels.at(0).instructions) {
    if (operation_of(instruction) == "STL") stored += bytes_of(instruction);
    if (operation_of(instruction) == "LDL") loaded += bytes_of(instruction);
  }
  EXPECT_GT(stored, 0);
  EXPECT_GT(loaded, 0);
  EXPECT_EQ(stored, taken.compilation.entries.at(0).spill_store_bytes);
  EXPECT_EQ(loaded, taken.compilation.entries.at(0).spill_load_bytes);
}

// A unit that must not spill and does is no kernel that runs, but it can be looked at.
TEST_F(SassCounting, AUnitThatIsNotCleanIsThere) {
  CompileJob job = {unit(kSpilling, "__launch_bounds__(1024, 2)"), "sm_90a"};
  job.unit.must_be_clean = true;
  const SassUnit taken = take_apart(job, nvdisasm_, false);
  EXPECT_NE(taken.compilation.error, "");
  EXPECT_GT(count_kinds(taken.kernels.at(0))[SassKind::local], 0U);
}

TEST_F(SassCounting, WhatDoesNotCompileHasNoKernels) {
  const SassUnit taken = take("this is no C++");
  EXPECT_NE(taken.compilation.error, "");
  EXPECT_TRUE(taken.kernels.empty());
}

TEST_F(SassCounting, ACubinThatIsNoneIsAnError) {
  try {
    disassemble(nvdisasm_, "no cubin");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("nvdisasm ended with exit status"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace attnlab
