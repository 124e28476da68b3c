#include "harness/measure/ceiling_limits.h"

#include <gtest/gtest.h>

#include <limits>

#include "harness/testing/test_peaks.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

TEST(CeilingLimits, TheRowIsThisVeryProduct) {
  ASSERT_NE(datasheet_of(h200()), nullptr);
  EXPECT_STREQ(datasheet_of(h200())->name, "H200");
  Device part = h200();
  part.multiprocessors = 16;
  EXPECT_EQ(datasheet_of(part), nullptr);
  Device smaller = h200();
  smaller.memory_bytes /= 2;
  EXPECT_EQ(datasheet_of(smaller), nullptr);
  Device unknown = h200();
  unknown.name = "NVIDIA H20";
  EXPECT_EQ(datasheet_of(unknown), nullptr);
}

TEST(CeilingLimits, OfAnH200ByHand) {
  EXPECT_DOUBLE_EQ(datasheet_rate(CeilingId::tensor_f16, h200()).value(), 989.4e12);
  EXPECT_DOUBLE_EQ(datasheet_rate(CeilingId::hbm_copy, h200()).value(), 4.8e12);
  EXPECT_DOUBLE_EQ(datasheet_rate(CeilingId::shared_read, h200()).value(), 132 * 1.98e9 * 128);
  EXPECT_DOUBLE_EQ(datasheet_rate(CeilingId::ex2, h200()).value(), 132 * 1.98e9 * 16);
  EXPECT_FALSE(datasheet_rate(CeilingId::l2_read, h200()));
  EXPECT_FALSE(datasheet_rate(CeilingId::tensor_tf32, h200()));
  EXPECT_DOUBLE_EQ(highest_rate(CeilingId::tensor_bf16, h200()).value(), 132 * 1.98e9 * 4096);
  EXPECT_DOUBLE_EQ(highest_rate(CeilingId::tensor_tf32, h200()).value(), 132 * 1.98e9 * 2048);
  EXPECT_DOUBLE_EQ(highest_rate(CeilingId::fma_f32, h200()).value(), 132 * 1.98e9 * 256);
}

TEST(CeilingLimits, WithoutAClockOrARowThereIsNoNumber) {
  Device device = h200();
  device.name = "?";
  device.max_clock_hz = 0.0;
  for (const CeilingId id : ceiling_ids()) {
    EXPECT_FALSE(datasheet_rate(id, device)) << to_string(id);
    EXPECT_FALSE(highest_rate(id, device)) << to_string(id);
  }
}

Ceiling measured(CeilingId id, double burst, double settled, double clock_hz = 1.5e9) {
  return {.id = id,
          .burst = {.per_s = burst, .clock_hz = clock_hz},
          .settled = {.per_s = settled, .clock_hz = clock_hz}};
}

TEST(CeilingLimits, TwoPercentAboveTheChipIsImpossible) {
  for (const CeilingId id : ceiling_ids()) {
    const double highest = highest_rate(id, h200()).value();
    EXPECT_EQ(impossible_ceiling(measured(id, 1.015 * highest, highest), h200()), "");
    EXPECT_PRED2(contains, impossible_ceiling(measured(id, 1.03 * highest, highest), h200()),
                 std::string(to_string(id)) + " burst");
    EXPECT_PRED2(contains, impossible_ceiling(measured(id, highest, 1.03 * highest), h200()),
                 "settled");
  }
}

TEST(CeilingLimits, WhatIsNoRateIsImpossible) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double value : {nan, infinite, 0.0, -1.0}) {
    EXPECT_NE(impossible_ceiling(measured(CeilingId::l2_read, value, 1e12), h200()), "");
    EXPECT_NE(impossible_ceiling(measured(CeilingId::l2_read, 1e12, value), h200()), "");
    EXPECT_NE(impossible_ceiling(measured(CeilingId::l2_read, 1e12, 1e12, value), h200()), "");
  }
  EXPECT_EQ(impossible_ceiling({.id = CeilingId::ex2, .reason = "not measured"}, h200()), "");
}

TEST(CeilingLimits, OneWrongRateSpoilsAll) {
  Peaks peaks = h200_peaks();
  EXPECT_TRUE(is_possible(peaks, h200()));
  peaks.ceilings.back().burst.per_s = 1e15;
  EXPECT_FALSE(is_possible(peaks, h200()));
}

}  // namespace
}  // namespace attnlab
