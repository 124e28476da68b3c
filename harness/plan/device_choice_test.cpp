#include "harness/plan/device_choice.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

TEST(DeviceChoice, IsTheFirstThatFits) {
  const std::vector<Device> devices = {{.backend = Backend::cuda, .name = "gpu"},
                                       {.backend = Backend::cpu, .name = "cpu"}};
  EXPECT_EQ(choose_device(BackendChoice::automatic, devices).name, "gpu");
  EXPECT_EQ(choose_device(BackendChoice::cpu, devices).name, "cpu");
  const Device none = choose_device(BackendChoice::cuda, {devices[1]});
  EXPECT_EQ(none.name, "");
  EXPECT_EQ(none.backend, Backend::cuda);
  EXPECT_EQ(describe(none), "no cuda device");
}

}  // namespace
}  // namespace attnlab
