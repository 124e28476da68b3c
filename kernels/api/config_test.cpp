#include "kernels/api/config.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "kernels/api/implementation.h"

namespace attnlab {
namespace {

constexpr ConfigAxis kAxes[] = {{.name = "block_m",
                                 .summary = "query rows of a tile",
                                 .default_value = 64,
                                 .minimum = 1,
                                 .maximum = 256},
                                {.name = "stages",
                                 .summary = "tiles in flight",
                                 .default_value = 2,
                                 .minimum = 1,
                                 .maximum = 4}};
constexpr Implementation kImplementation = {
    .api_version = kApiVersion, .name = "example", .axes = kAxes, .num_axes = 2};

TEST(Config, KeepsTheOrderInWhichNamesWereSet) {
  Config config;
  EXPECT_EQ(config.to_string(), "default");
  config.set("stages", 3);
  config.set("block_m", 64);
  config.set("stages", 4);  // replaces in place
  EXPECT_EQ(config.to_string(), "stages=4,block_m=64");
  EXPECT_EQ(config.values().size(), 2u);
  EXPECT_EQ(config.get("stages"), 4);
  EXPECT_TRUE(config.contains("block_m"));
  EXPECT_FALSE(config.contains("block"));
}

TEST(Config, MissingNameIsNamed) {
  try {
    Config().get("block_n");
    FAIL() << "no exception";
  } catch (const std::out_of_range& error) {
    EXPECT_NE(std::string(error.what()).find("block_n"), std::string::npos);
  }
}

TEST(Config, DefaultsAreThoseOfTheAxes) {
  EXPECT_EQ(default_config(kImplementation).to_string(), "block_m=64,stages=2");
  EXPECT_EQ(default_config({.num_axes = 0}).to_string(), "default");
}

TEST(Config, IsHeldToTheAxesOfTheImplementation) {
  const auto reason = [](const char* name, std::int64_t value) {
    Config config = default_config(kImplementation);
    config.set(name, value);
    return invalid(config, kImplementation);
  };
  EXPECT_EQ(invalid(Config(), kImplementation), "");
  EXPECT_EQ(reason("block_m", 1), "");
  EXPECT_EQ(reason("block_m", 256), "");
  EXPECT_EQ(reason("block_m", 0), "block_m = 0 is outside example's [1, 256]");
  EXPECT_EQ(reason("stages", 5), "stages = 5 is outside example's [1, 4]");
  EXPECT_EQ(reason("block", 64), "example has no axis 'block'");
}

}  // namespace
}  // namespace attnlab
