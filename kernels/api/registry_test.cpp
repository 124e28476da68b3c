#include "kernels/api/registry.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace attnlab {
namespace {

constexpr Implementation kOnCpu = {
    .api_version = kApiVersion, .name = "example", .backend = Backend::cpu};
constexpr Implementation kOnCuda = {
    .api_version = kApiVersion, .name = "example", .backend = Backend::cuda};
constexpr Implementation kOther = {
    .api_version = kApiVersion, .name = "other", .backend = Backend::cpu};

std::string refusal(Registry& registry, const Implementation& implementation) {
  try {
    registry.add(implementation);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Registry, FindsByNameAndBackendAndKeepsTheOrder) {
  const Implementation* list[] = {&kOther, &kOnCpu, &kOnCuda};
  const Registry registry{list};
  EXPECT_EQ(registry.find("example", Backend::cpu), &kOnCpu);
  EXPECT_EQ(registry.find("example", Backend::cuda), &kOnCuda);
  EXPECT_EQ(registry.find("other", Backend::cuda), nullptr);
  EXPECT_EQ(registry.find("exampl", Backend::cpu), nullptr);
  ASSERT_EQ(registry.all().size(), 3u);
  EXPECT_EQ(registry.all()[0], &kOther);
  EXPECT_EQ(registry.all()[2], &kOnCuda);
}

TEST(Registry, RefusesADuplicate) {
  Registry registry;
  EXPECT_EQ(refusal(registry, kOnCpu), "");
  EXPECT_EQ(refusal(registry, kOnCuda), "");  // the same name on another backend
  EXPECT_EQ(refusal(registry, kOnCpu), "kernel 'example' is registered twice for backend cpu");
  EXPECT_EQ(registry.all().size(), 2u);
}

TEST(Registry, RefusesAnotherApiVersion) {
  Registry registry;
  Implementation old = kOther;
  old.api_version = kApiVersion - 1;
  const std::string reason = refusal(registry, old);
  EXPECT_NE(reason.find("'other' was built for api version " + std::to_string(old.api_version)),
            std::string::npos)
      << reason;
  EXPECT_NE(reason.find("rebuild"), std::string::npos) << reason;
  EXPECT_TRUE(registry.all().empty());
}

}  // namespace
}  // namespace attnlab
