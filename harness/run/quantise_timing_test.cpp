// The kernels that quantise are timed where they leave the bytes of the CPU, and not else.
#include "harness/run/quantise_timing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "harness/tensors/arena.h"
#include "harness/testing/test_run_case.h"

namespace attnlab {
namespace {

// Quantises on the CPU; from launch `first_wrong` on one scale, or a byte behind one, is wrong.
// From `first_idle` on launches do nothing.
class FakeQuantiser : public DeviceQuantiser {
 public:
  FakeQuantiser(const Problem& problem, int first_wrong, bool outside = false)
      : problem_(problem), first_wrong_(first_wrong), outside_(outside) {}

  void launch(const Tensors& from, const E4m3Outputs& to) override {
    if (launches + 1 == first_idle) return;
    quantise(problem_, static_cast<const float*>(from.q), static_cast<const float*>(from.k),
             static_cast<const float*>(from.v), 1, to);
    if (++launches != first_wrong_) return;
    if (outside_) {
      to.scale_k[elements_scale_k(problem_)] = 1.0f;
    } else {
      to.scale_k[0] *= 2.0f;
      --launches;  // all that follow, too
    }
  }
  std::uint64_t bytes() const override { return 4096; }

  int launches = 0;
  int first_idle = 0;  // 0: none

 private:
  Problem problem_;
  int first_wrong_;
  bool outside_;
};

class QuantiseTimes : public RunCase {
 protected:
  QuantiseTimes() {
    work_.problem.dtype = Dtype::e4m3;
    work_.problem.head_dim = 16;
    inputs_.emplace(arena_, work_.problem, InputKind::normal, 7, 1);
  }

  QuantiseRecord time(FakeQuantiser& quantiser) {
    return time_quantiser(quantiser, *inputs_, arena_, device_, context_.protocol, [] {});
  }

  Arena arena_;
  std::optional<Inputs> inputs_;
};

TEST_F(QuantiseTimes, ARightOneHasATime) {
  FakeQuantiser quantiser(work_.problem, 0);
  const QuantiseRecord record = time(quantiser);
  EXPECT_EQ(record.reason, "");
  EXPECT_EQ(record.bytes, 4096U);
  ASSERT_TRUE(record.time.has_value());
  EXPECT_EQ(record.time->samples_s.size(), 3U);  // of three rounds
  EXPECT_GT(record.time->min_s, 0.0);
  EXPECT_LE(record.time->min_s, record.time->median_s);
  EXPECT_LE(record.time->q1_s, record.time->q3_s);
}

TEST_F(QuantiseTimes, AWrongOneIsNotTimed) {
  FakeQuantiser quantiser(work_.problem, 1);
  const QuantiseRecord record = time(quantiser);
  EXPECT_EQ(record.reason, "scale_k has other bytes than the CPU's");
  EXPECT_FALSE(record.time.has_value());
}

TEST_F(QuantiseTimes, OneThatIsWrongWhileItIsTimedHasNoTime) {
  FakeQuantiser quantiser(work_.problem, 2);
  const QuantiseRecord record = time(quantiser);
  EXPECT_EQ(record.reason, "scale_k has other bytes than the CPU's");
  EXPECT_FALSE(record.time.has_value());
}

TEST_F(QuantiseTimes, OneThatDoesNothingInLaterSamplesHasNoTime) {
  FakeQuantiser quantiser(work_.problem, 0);
  quantiser.first_idle = 3;
  const QuantiseRecord record = time(quantiser);
  EXPECT_EQ(record.reason, "e4m3 q has other bytes than the CPU's");
  EXPECT_FALSE(record.time.has_value());
}

TEST_F(QuantiseTimes, OneThatWritesOutsideHasNoTime) {
  FakeQuantiser quantiser(work_.problem, 1, true);
  const QuantiseRecord record = time(quantiser);
  EXPECT_NE(record.reason.find("scale_k"), std::string::npos) << record.reason;
  EXPECT_FALSE(record.time.has_value());
}

TEST_F(QuantiseTimes, WhatItThrowsIsHandedOn) {
  FakeQuantiser quantiser(work_.problem, 0);
  EXPECT_THROW(time_quantiser(quantiser, *inputs_, arena_, device_, context_.protocol,
                              [] { throw Interrupted{}; }),
               Interrupted);
}

TEST_F(QuantiseTimes, OnACpuNothingIsSaid) {
  EXPECT_FALSE(time_quantisation(*inputs_, arena_, context_, [] {}).has_value());
}

}  // namespace
}  // namespace attnlab
