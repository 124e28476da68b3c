#include "harness/measure/roof.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/plan/accounting.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/testing/test_peaks.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

constexpr RoofPeaks kPeaks = {.flops_per_s = 600e12, .bytes_per_s = 4e12};  // ridge: 150

// 1.2e12 FLOP take 2 ms, 4e9 bytes 1 ms.
TEST(Roof, ComputeBindsAboveTheRidge) {
  const Roof roof = make_roof({.flops = 1.2e12, .bytes = 4e9, .seconds = 4e-3}, kPeaks);
  EXPECT_DOUBLE_EQ(roof.intensity.value(), 300.0);
  EXPECT_FALSE(roof.dram_intensity);
  EXPECT_EQ(roof.binds, Limit::compute);
  EXPECT_DOUBLE_EQ(roof.percent_of_compute_peak.value(), 50.0);
  EXPECT_DOUBLE_EQ(roof.percent_of_memory_peak.value(), 25.0);
  EXPECT_DOUBLE_EQ(roof.percent_of_roof.value(), 50.0);
}

TEST(Roof, MemoryBindsBelowIt) {
  const Roof roof =
      make_roof({.flops = 0.6e12, .bytes = 8e9, .seconds = 4e-3, .dram_bytes = 16e9}, kPeaks);
  EXPECT_DOUBLE_EQ(roof.intensity.value(), 75.0);
  EXPECT_DOUBLE_EQ(roof.dram_intensity.value(), 37.5);
  EXPECT_EQ(roof.binds, Limit::memory);
  EXPECT_DOUBLE_EQ(roof.percent_of_compute_peak.value(), 25.0);
  EXPECT_DOUBLE_EQ(roof.percent_of_memory_peak.value(), 50.0);
  EXPECT_DOUBLE_EQ(roof.percent_of_roof.value(), 50.0);
}

TEST(Roof, MayBePassed) {
  const Roof roof = make_roof({.flops = 1.2e12, .bytes = 4e9, .seconds = 1e-3}, kPeaks);
  EXPECT_DOUBLE_EQ(roof.percent_of_roof.value(), 200.0);
}

TEST(Roof, WithoutPeaksBytesOrTimeThereIsNoNumber) {
  const Roof unknown = make_roof({.flops = 3.0, .bytes = 2.0, .seconds = 1.0}, std::nullopt);
  EXPECT_DOUBLE_EQ(unknown.intensity.value(), 1.5);
  EXPECT_FALSE(unknown.binds || unknown.percent_of_roof || unknown.percent_of_compute_peak);
  EXPECT_FALSE(make_roof({.flops = 1.0, .seconds = 1.0}, kPeaks).intensity);
  EXPECT_FALSE(make_roof({.flops = 1.0, .bytes = 1.0}, kPeaks).percent_of_roof);
  const RoofWork cached{.flops = 1.0, .bytes = 1.0, .seconds = 1.0, .dram_bytes = 0.0};
  EXPECT_FALSE(make_roof(cached, kPeaks).dram_intensity);
}

TEST(RoofPeaks, AreTheSettledOnesOfTheType) {
  std::string reason;
  const Peaks peaks = h200_peaks();
  const auto flops = [&](Dtype dtype, bool tf32) {
    return choose_peaks(peaks, dtype, tf32, reason)->peaks.flops_per_s;
  };
  EXPECT_DOUBLE_EQ(flops(Dtype::f16, false), 640e12);
  EXPECT_DOUBLE_EQ(flops(Dtype::bf16, false), 660e12);
  EXPECT_DOUBLE_EQ(flops(Dtype::f32, false), 50e12);
  EXPECT_DOUBLE_EQ(flops(Dtype::f32, true), 320e12);
  EXPECT_EQ(reason, "");
}

TEST(RoofPeaks, TheFasterWayToUseTheMemory) {
  std::string reason;
  Peaks peaks = h200_peaks();
  EXPECT_EQ(choose_peaks(peaks, Dtype::f16, false, reason)->memory, CeilingId::hbm_read);
  peaks.ceilings[4].settled.per_s = 4.1e12;
  const Roof::Source source = choose_peaks(peaks, Dtype::f16, false, reason).value();
  EXPECT_EQ(source.memory, CeilingId::hbm_copy);
  EXPECT_DOUBLE_EQ(source.peaks.bytes_per_s, 4.1e12);
}

TEST(RoofPeaks, WhatWasNotMeasuredIsAReason) {
  std::string reason;
  Peaks peaks = h200_peaks();
  peaks.ceilings[2] = {.id = CeilingId::tensor_tf32, .reason = "x"};
  EXPECT_FALSE(choose_peaks(peaks, Dtype::f32, true, reason));
  EXPECT_PRED2(contains, reason, "tensor_tf32");
  EXPECT_TRUE(choose_peaks(peaks, Dtype::f32, false, reason));
  peaks.ceilings.erase(peaks.ceilings.begin() + 4, peaks.ceilings.begin() + 6);
  EXPECT_FALSE(choose_peaks(peaks, Dtype::f16, false, reason));
  EXPECT_PRED2(contains, reason, "HBM");
}

// A share of the rate of fp32 multiply-adds would be 400 % and say nothing.
TEST(RoofPeaks, ProductsOfE4m3HaveNone) {
  std::string reason;
  EXPECT_FALSE(choose_peaks(h200_peaks(), Dtype::e4m3, false, reason));
  EXPECT_EQ(reason, "attnlab peak measures no products of e4m3");
}

Record timed(const Problem& problem) {
  Record record{.point = {.problem = problem, .competitors = {{.kernel = "naive"}}}};
  record.time = Timing{.median_s = 1e-3};
  record.flops = Flops{.useful = 320'000'000'000};
  return record;
}

// Here q, k, v, o have 64 * 64 halves each, and lse comes on top.
TEST(RoofOfARecord, UsesWhatItHolds) {
  const Record record = timed({.dtype = Dtype::f16,
                               .batch = 1,
                               .num_heads_q = 1,
                               .num_heads_kv = 1,
                               .seqlen_q = 64,
                               .seqlen_k = 64,
                               .head_dim = 64});
  const Roof roof = roof_of(record, {.peaks = h200_peaks()}).value();
  EXPECT_DOUBLE_EQ(roof.intensity.value(), 320e9 / (4 * 64 * 64 * 2 + 64 * 4));
  EXPECT_EQ(roof.binds, Limit::compute);
  EXPECT_DOUBLE_EQ(roof.percent_of_roof.value(), 50.0);
  EXPECT_EQ(roof.source->compute, CeilingId::tensor_f16);
  EXPECT_EQ(roof.source->timestamp, h200_peaks().timestamp);
  const auto json = to_json([&] {
    Record with = record;
    with.roof = roof;
    return with;
  }())["roof"];
  EXPECT_EQ(json["binds"], "compute");
  EXPECT_DOUBLE_EQ(json["percent_of_roof"], 50.0);
  EXPECT_DOUBLE_EQ(json["peaks"]["flops_per_s"], 640e12);
  EXPECT_EQ(json["reason"], "");
}

TEST(RoofOfARecord, TakesCountedBytesThatAreValid) {
  Record record = timed({.seqlen_q = 8, .seqlen_k = 8, .head_dim = 8});
  record.counted =
      Counted{.a_launch = {.dram_read_bytes = 60e9, .dram_write_bytes = 20e9}, .valid = true};
  const KnownPeaks none = {.reason = "run attnlab peak"};
  EXPECT_DOUBLE_EQ(roof_of(record, none)->dram_intensity.value(), 4.0);
  record.counted->valid = false;
  EXPECT_FALSE(roof_of(record, none)->dram_intensity);
  record.counted->valid = true;
  record.counted->a_launch.dram_write_bytes.reset();
  EXPECT_FALSE(roof_of(record, none)->dram_intensity);
}

TEST(RoofOfARecord, SaysWhyThereIsNone) {
  const Record record = timed({.seqlen_q = 8, .seqlen_k = 8, .head_dim = 8});
  const Roof roof = roof_of(record, {.reason = "run attnlab peak"}).value();
  EXPECT_TRUE(roof.intensity.has_value());
  EXPECT_FALSE(roof.source || roof.binds);
  EXPECT_EQ(roof.reason, "run attnlab peak");
  Record failed = record;
  failed.time.reset();
  EXPECT_FALSE(roof_of(failed, {.peaks = h200_peaks()}));
}

}  // namespace
}  // namespace attnlab
