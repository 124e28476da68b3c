#include "harness/gpus.h"

#include <gtest/gtest.h>

#include <string>

#include "harness/test_support.h"

namespace attnlab {
namespace {

const Gpu& gpu(const std::string& name) { return *parse_gpus(name, "--gpu").front(); }

TEST(Gpus, EveryRowNamesItsVariantAndItsSource) {
  ASSERT_EQ(gpus().size(), 6u);
  for (const Gpu& row : gpus()) {
    EXPECT_NE(std::string(row.variant), "") << row.name;
    EXPECT_PRED2(contains, row.source, "NVIDIA");
    EXPECT_EQ(&gpu(row.name), &row);
  }
}

TEST(Gpus, NamesAreFoundHoweverTheyAreWritten) {
  const auto chosen = parse_gpus("rtx 3090,a-100, h200", "--gpu");
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_STREQ(chosen[0]->name, "RTX3090");
  EXPECT_STREQ(chosen[1]->name, "A100");
  EXPECT_STREQ(chosen[2]->name, "H200");
}

TEST(Gpus, WrongNamesGetARemedy) {
  const auto error = [](const char* text) {
    return usage_error([&] { parse_gpus(text, "--gpu"); });
  };
  EXPECT_EQ(error("A10"), "--gpu: no data of a GPU 'A10'; did you mean 'A100'?");
  EXPECT_EQ(error("H100,H10O"), "--gpu: no data of a GPU 'H10O'; did you mean 'H100'?");
  EXPECT_EQ(error("MI300X"),
            "--gpu: no data of a GPU 'MI300X'; there are: A100, H100, H200, T4, L4, RTX3090");
  EXPECT_EQ(error("T4,t4"), "--gpu: T4 is given twice");
  EXPECT_PRED2(starts_with, error(""), "--gpu: a name is missing; there are: A100");
  EXPECT_PRED2(starts_with, error("T4,"), "--gpu: a name is missing");
}

// By hand: 312e12 / 2039e9 = 153.016 FLOP a byte. 3.12e12 FLOP take 10 ms, 20.39e9 bytes as well.
TEST(Gpus, RooflineOfAnA100ByHand) {
  const Gpu& a100 = gpu("A100");
  EXPECT_NEAR(*ridge_flops_per_byte(a100, Dtype::f16), 153.0162, 1e-4);
  EXPECT_NEAR(*ridge_flops_per_byte(a100, Dtype::f32), 9.56351, 1e-5);
  const Roofline above = *roofline(a100, Dtype::f16, 3.12e12, 20.38e9);
  EXPECT_EQ(above.limit, Limit::compute);
  EXPECT_DOUBLE_EQ(above.seconds, 0.01);
  const Roofline below = *roofline(a100, Dtype::f16, 3.11e12, 20.39e9);
  EXPECT_EQ(below.limit, Limit::memory);
  EXPECT_DOUBLE_EQ(below.seconds, 0.01);
  EXPECT_DOUBLE_EQ(roofline(a100, Dtype::f32, 19.5e12, 1.0)->seconds, 1.0);
}

TEST(Gpus, WithoutASourceThereIsNoNumber) {
  const Gpu& t4 = gpu("T4");
  EXPECT_FALSE(peak_flops_per_s(t4, Dtype::bf16));
  EXPECT_FALSE(ridge_flops_per_byte(t4, Dtype::bf16));
  EXPECT_FALSE(roofline(t4, Dtype::bf16, 1.0, 1.0));
  Gpu no_bandwidth = t4;
  no_bandwidth.memory_bytes_per_s.reset();
  EXPECT_FALSE(roofline(no_bandwidth, Dtype::f16, 1.0, 1.0));
}

}  // namespace
}  // namespace attnlab
