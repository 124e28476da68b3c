// Tests without a GPU: the metrics exist on the chips that are known, and fit the passes that are
// promised.
#include "kernels/cuda/counters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cuda/library.h"
#include "kernels/cuda/range_profiler.h"

namespace attnlab::cuda {
namespace {

constexpr Dtype kDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::e4m3};

class CounterMetrics : public testing::Test {
 protected:
  void SetUp() override {
    try {
      cupti();
    } catch (const MissingLibrary& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

// Drops metrics that stand for other chips: they are listed beside these and are not there.
MetricNames of_hopper(MetricNames names) {
  std::erase_if(names, [](const std::string& name) { return name.starts_with("dram__bytes_op_"); });
  return names;
}

TEST_F(CounterMetrics, AreAPassOrTwoOnHopperAndThreeWithTheFurtherOnes) {
  for (const Dtype dtype : kDtypes) {
    SCOPED_TRACE(to_string(dtype));
    const bool is_counted_at_once = dtype == Dtype::f16 || dtype == Dtype::e4m3;
    const MetricNames usual = of_hopper(counted_metrics(dtype, false));
    EXPECT_EQ(usual.size(), 10U);
    EXPECT_EQ(passes_on_chip("GH100", usual), is_counted_at_once ? 1 : 2);
    const MetricNames all = of_hopper(counted_metrics(dtype, true));
    EXPECT_EQ(all.size(), dtype == Dtype::e4m3 ? 15U : 16U) << "fp8 has one count";
    EXPECT_EQ(passes_on_chip("GH100", all), 3);
  }
}

TEST_F(CounterMetrics, AMetricThatAChipLacksIsAnError) {
  EXPECT_THROW(passes_on_chip("GH100", {"dram__bytes_op_read.sum"}), CuptiError);
  EXPECT_THROW(passes_on_chip("no such chip", {"dram__bytes_read.sum"}), CuptiError);
}

}  // namespace
}  // namespace attnlab::cuda
