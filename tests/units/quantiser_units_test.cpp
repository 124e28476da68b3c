// Looks at what NVRTC makes of the kernels that quantise: no GPU is needed.
#include <gtest/gtest.h>

#include <string>

#include "kernels/cuda/jit.h"
#include "kernels/cuda/quantiser.h"
#include "kernels/cuda/test_support.h"
#include "tests/paths.h"

namespace attnlab {
namespace {

class QuantiserUnits : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (const std::string why = cuda::no_compiler(); !why.empty()) GTEST_SKIP() << why;
    set_compiler({.cache_folder = in_build("compile_test_cache")});
  }
  void TearDown() override { set_compiler({}); }
};

// Head dims that are sums of other powers of two are other code.
TEST_P(QuantiserUnits, SpillNothing) {
  constexpr Quantisation kHows[] = {{.qk = ScaleOf::block, .v = ScaleOf::channel},
                                    {.qk = ScaleOf::head, .v = ScaleOf::block},
                                    {.qk = ScaleOf::block, .v = ScaleOf::head, .rotate = false}};
  for (const Quantisation& how : kHows) {
    const Problem problem = {.dtype = Dtype::e4m3, .head_dim = GetParam(), .quantisation = how};
    for (const KernelUnit& unit : cuda::quantiser_units(problem)) {
      const Compilation made = cuda::compile(unit, "sm_90a").compilation;
      ASSERT_EQ(made.error, "") << unit.name;  // also where registers spill
      ASSERT_EQ(made.entries.size(), unit.entries.size());
      for (const CompiledEntry& entry : made.entries) {
        EXPECT_EQ(entry.stack_bytes, 0) << unit.name << " " << entry.entry.name;
        EXPECT_GE(entry.blocks_per_multiprocessor, 1) << unit.name << " " << entry.entry.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDims, QuantiserUnits, testing::Values(16, 48, 64, 112, 128, 192, 256),
                         [](const auto& head_dim) { return "d" + std::to_string(head_dim.param); });

}  // namespace
}  // namespace attnlab
