#include "harness/plan/support.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

const AxisSupport& axis(const Support& support, const std::string& name) {
  for (const AxisSupport& entry : support.axes) {
    if (entry.axis == name) return entry;
  }
  throw std::out_of_range(name);
}

TEST(Support, AsksTheKernel) {
  const Support support = probe_support(fake::kTiled, fake::cpu());
  EXPECT_EQ(axis(support, "pass").supported, (Texts{"fwd"}));
  ASSERT_EQ(axis(support, "pass").unsupported.size(), 1u);
  EXPECT_EQ(axis(support, "pass").unsupported[0].first, "no backward");
  EXPECT_EQ(axis(support, "pass").unsupported[0].second, (Texts{"bwd", "fwdbwd"}));
  EXPECT_EQ(axis(support, "dtype").unsupported[0].second, (Texts{"f16", "bf16"}));
  const Texts& masks = axis(support, "mask").supported;
  for (const char* pattern : {"butterfly", "local", "strided", "longformer", "bigbird", "random"}) {
    EXPECT_TRUE(std::any_of(masks.begin(), masks.end(), [&](const std::string& mask) {
      return mask.starts_with(std::string("blocks:") + pattern);
    })) << pattern;
  }
  EXPECT_EQ(axis(support, "dropout").supported, (Texts{"0", "0.1"}));
  EXPECT_EQ(axis(support, "layout").supported, (Texts{"bshd", "bhsd", "packed"}));
  EXPECT_EQ(axis(support, "heads_kv").supported, (Texts{"8", "2", "1"}));
}

TEST(Support, StartsFromAProblemThatWorks) {
  Implementation half = fake::kTiled;
  half.unsupported = [](const Problem& problem, const Config&, const Device&) -> std::string {
    return problem.dtype == Dtype::f16 ? "" : "f16 only";
  };
  const Support support = probe_support(half, fake::cpu());
  EXPECT_EQ(axis(support, "dtype").supported, (Texts{"f16"}));
  EXPECT_EQ(axis(support, "head_dim").unsupported.size(), 0u);
}

TEST(Support, SaysWhyNothingWorks) {
  const Support support = probe_support(fake::kOwn, Device{.backend = Backend::cuda});
  EXPECT_TRUE(support.axes.empty());
  EXPECT_PRED2(starts_with, support.reason, "this machine has no cuda device: ");
}

}  // namespace
}  // namespace attnlab
