#include "kernels/cuda/telemetry.h"

#include <gtest/gtest.h>

#include "kernels/cuda/nvml.h"

namespace attnlab::cuda {
namespace {

using Words = std::vector<std::string>;

TEST(ThrottleReasons, AreNamed) {
  EXPECT_EQ(throttle_reasons(0), Words{});
  EXPECT_EQ(throttle_reasons(kNvmlReasonPowerCap), Words{"power cap"});
  EXPECT_EQ(throttle_reasons(kNvmlReasonHardwareThermal | kNvmlReasonHardwareSlowdown),
            (Words{"hardware slowdown", "hardware thermal slowdown"}));
}

TEST(ThrottleReasons, OfBitsThatAreNewNoneIsLost) {
  EXPECT_EQ(throttle_reasons(kNvmlReasonGpuIdle | 0x1200), (Words{"idle", "unknown (0x1200)"}));
}

}  // namespace
}  // namespace attnlab::cuda
