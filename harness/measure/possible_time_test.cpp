#include "harness/measure/possible_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "harness/plan/accounting.h"
#include "harness/plan/gpus.h"
#include "harness/plan/protocol.h"
#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Makes an H100 of round numbers: at 1 GHz 100 multiprocessors finish 409.6 TFLOP/s of f16, 25.6 of
// f32 and 204.8 in TF32. Its memory takes 1 us for 3.35 MB.
Record record_of(double seconds, Dtype dtype = Dtype::f16) {
  Record record;
  record.point.problem.dtype = dtype;
  record.point.competitors.push_back({.kernel = "own", .backend = Backend::cuda});
  record.device = {.backend = Backend::cuda,
                   .name = "NVIDIA H100 80GB HBM3",
                   .compute_capability = 90,
                   .multiprocessors = 100,
                   .max_clock_hz = 1e9};
  record.flops = Flops{.useful = 204'800'000, .executed = 409'600'000};
  record.compulsory_bytes = 3'350'000;
  // Only the fastest sample is judged.
  record.time = Timing{.samples_s = {1.0, seconds}, .median_s = 1.0, .min_s = seconds};
  return record;
}

Record cold(Record record) {
  record.protocol.cache = CacheState::cold;
  return record;
}

TEST(PossibleTime, FasterThanTheChipMultipliesIsImpossible) {
  EXPECT_EQ(impossible_time(record_of(1.01e-6)), "");
  EXPECT_EQ(
      impossible_time(record_of(0.99e-6)),
      "a sample of 0.99 us is impossible: 4.096e+08 FLOPs take 1 us at the least on this GPU. "
      "Either the kernel did not run, or the clock is wrong");
}

TEST(PossibleTime, TheRateIsOfTheDtypeAndItsProducts) {
  EXPECT_EQ(impossible_time(record_of(16.1e-6, Dtype::f32)), "");
  EXPECT_PRED2(contains, impossible_time(record_of(15.9e-6, Dtype::f32)), "take 16 us");
  EXPECT_PRED2(contains, impossible_time(record_of(0.99e-6, Dtype::bf16)), "take 1 us");
  Record tf32 = record_of(2.01e-6, Dtype::f32);
  tf32.point.competitors[0].implementation = &fake::kWithTf32;
  tf32.point.competitors[0].config.set("coarse", 1);
  EXPECT_EQ(impossible_time(tf32), "");
  tf32.time->min_s = 1.99e-6;
  EXPECT_PRED2(contains, impossible_time(tf32), "take 2 us");
  tf32.point.competitors[0].config.set("coarse", 0);
  EXPECT_PRED2(contains, impossible_time(tf32), "take 16 us");
}

TEST(PossibleTime, APeerIsJudgedByWhatIsUseful) {
  Record peer = record_of(0.51e-6);
  peer.flops->executed = std::nullopt;
  EXPECT_EQ(impossible_time(peer), "");
  peer.time->min_s = 0.49e-6;
  EXPECT_PRED2(contains, impossible_time(peer), "2.048e+08 FLOPs take 0.5 us");
}

TEST(PossibleTime, ColdIsAlsoJudgedByItsBytes) {
  Record record = record_of(0.99e-6);
  record.flops = Flops{.useful = 1, .executed = 1};
  EXPECT_EQ(impossible_time(record), "") << "hot: the bytes may lie in a cache";
  EXPECT_EQ(impossible_time(cold(record)),
            "a cold sample of 0.99 us is impossible: 3350000 bytes take 1 us at the least on an "
            "H100. Either the inputs were in a cache, or the clock is wrong");
  record.time->min_s = 1.01e-6;
  EXPECT_EQ(impossible_time(cold(record)), "");
  record.time->min_s = 0.99e-6;
  record.compulsory_bytes = std::nullopt;  // a peer's
  EXPECT_EQ(impossible_time(cold(record)), "");
}

TEST(PossibleTime, NaNIsNeverPossible) {
  EXPECT_PRED2(contains, impossible_time(record_of(kNaN)), "a sample of nan us is impossible");
  Record no_rate = cold(record_of(kNaN));
  no_rate.device.compute_capability = 100;
  EXPECT_PRED2(contains, impossible_time(no_rate), "a cold sample of nan us is impossible");
}

// Tensor cores multiply e4m3 twice as fast as f16, where they can.
TEST(PossibleTime, TheRateOfE4m3IsItsOwn) {
  EXPECT_EQ(flops_per_clock(90, Dtype::e4m3, false), 2.0 * *flops_per_clock(90, Dtype::f16, false));
  EXPECT_EQ(flops_per_clock(80, Dtype::e4m3, false), std::nullopt);
}

TEST(PossibleTime, NoJudgementOfAChipThatIsNotKnown) {
  Record record = record_of(1e-12);
  record.device.compute_capability = 42;
  record.device.name = "NVIDIA Unheard-of";
  EXPECT_EQ(impossible_time(record), "");
  EXPECT_EQ(impossible_time(cold(record)), "");
  EXPECT_EQ(flops_per_clock(42, Dtype::f16, false), std::nullopt);
}

// An L40 is no L4: the memory of an L4 is a third as fast.
TEST(PossibleTime, AChipIsKnownByItsWholeName) {
  Record record = record_of(2e-6);
  record.flops = Flops{.useful = 1, .executed = 1};
  for (const char* name : {"NVIDIA L40S", "NVIDIA L40", "Tesla T40", "NVIDIA A1000"}) {
    record.device.name = name;
    EXPECT_EQ(impossible_time(cold(record)), "") << name;
  }
  for (const char* name : {"NVIDIA L4", "Tesla T4"}) {
    record.device.name = name;
    EXPECT_NE(impossible_time(cold(record)), "") << name;
  }
  record.time->min_s = 1e-6;
  record.device.name = "NVIDIA A100-SXM4-80GB";
  EXPECT_PRED2(contains, impossible_time(cold(record)), "on an A100.");
}

// Two threads of 16 lanes and two units at 6.5 GHz finish 832 GFLOP/s.
Record on_cpu(double seconds, const std::string& kernel, Dtype dtype = Dtype::f32) {
  Record record = record_of(seconds, dtype);
  record.device = {.backend = Backend::cpu, .name = "a processor", .threads = 2, .isa = "avx512"};
  record.point.competitors[0] = {.kernel = kernel, .backend = Backend::cpu};
  record.flops = Flops{.useful = 832'000'000, .executed = 1'664'000'000};
  return record;
}

TEST(PossibleTime, AProcessorIsJudgedByItsInstructionsAndThreads) {
  EXPECT_EQ(impossible_time(on_cpu(1.01e-3, "own")), "");
  EXPECT_EQ(impossible_time(on_cpu(0.99e-3, "own")),
            "a sample of 990 us is impossible: 8.32e+08 FLOPs take 1000 us at the least on 2 "
            "threads. Either the kernel did not run, or the clock is wrong");
  EXPECT_NE(impossible_time(on_cpu(0.99e-3, "own", Dtype::f16)), "") << "computed in fp32";
  Record record = on_cpu(1.01e-3, "own");
  record.device.threads = 1;
  EXPECT_PRED2(contains, impossible_time(record), "take 2000 us at the least on 1 thread.");
  record = on_cpu(1.99e-3, "own");
  record.device.isa = "avx2";
  EXPECT_NE(impossible_time(record), "");
  record = on_cpu(0.99e-3, "own");
  record.device.isa = "something new";
  EXPECT_NE(impossible_time(record), "");
  EXPECT_NE(impossible_time(on_cpu(kNaN, "own")), "");
  record = on_cpu(1.01e-3, "own");
  record.flops->executed = 1'000'000;  // blocks of a pattern are left out
  record.time->min_s = 2e-6;
  EXPECT_EQ(impossible_time(record), "");
  record = on_cpu(0.99e-3, "own");
  record.protocol.cache = CacheState::cold;
  record.flops = Flops{.useful = 1, .executed = 1};
  EXPECT_EQ(impossible_time(record), "") << "of its memory nothing is known";
}

TEST(PossibleTime, APeerOnAProcessorMayHaveMatrixUnits) {
  Record peer = on_cpu(0.99e-3, "torch:flash");
  peer.flops->executed = std::nullopt;
  EXPECT_NE(impossible_time(peer), "");
  peer.time->min_s = 1.01e-3;
  EXPECT_EQ(impossible_time(peer), "");
  peer.point.problem.dtype = Dtype::bf16;
  peer.time->min_s = 1.01e-3 / 32;
  EXPECT_EQ(impossible_time(peer), "");
  peer.time->min_s = 0.99e-3 / 32;
  EXPECT_NE(impossible_time(peer), "");
}

TEST(PossibleTime, ARecordWithoutTimeOrFlopsIsNotJudged) {
  Record record = record_of(1e-12);
  record.time.reset();
  EXPECT_EQ(impossible_time(record), "");
  record = record_of(1e-12);
  record.flops.reset();
  EXPECT_EQ(impossible_time(record), "");
}

}  // namespace
}  // namespace attnlab
