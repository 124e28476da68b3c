#include "harness/base/decimal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace attnlab {
namespace {

TEST(Decimal, MovesThePointOfTheShortestText) {
  EXPECT_NE(0.000698127 * 1e3, 0.698127) << "else there was nothing to do";
  EXPECT_EQ(times_power_of_ten(0.000698127, 3), 0.698127);
  EXPECT_EQ(times_power_of_ten(-0.07, 2), -7.0);
  EXPECT_EQ(times_power_of_ten(1980000000.0, -6), 1980.0);
  EXPECT_EQ(times_power_of_ten(0.0, 3), 0.0);
  EXPECT_EQ(times_power_of_ten(1e308, 3), std::numeric_limits<double>::infinity());
  EXPECT_EQ(times_power_of_ten(-std::numeric_limits<double>::infinity(), 3),
            -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(times_power_of_ten(std::nan(""), 3)));
}

TEST(Decimal, NanosecondsStayNanoseconds) {
  std::mt19937 engine(7);
  for (int i = 0; i < 10000; ++i) {
    const auto nanoseconds = static_cast<int>(engine() % 1000000000) + 1;
    const std::string seconds = fmt::format("{}e-9", nanoseconds);
    const std::string milliseconds = fmt::format("{}e-6", nanoseconds);
    EXPECT_EQ(times_power_of_ten(std::stod(seconds), 3), std::stod(milliseconds)) << seconds;
  }
}

}  // namespace
}  // namespace attnlab
