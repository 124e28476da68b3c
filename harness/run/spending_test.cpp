#include "harness/run/spending.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

TEST(Spending, SaysWhatTookTime) {
  EXPECT_EQ(describe(Spending{}), "");
  EXPECT_EQ(describe(Spending{.references = 3.14, .watch = 0.01, .timing = 12.0}),
            "Spent: references 3.1 s, timing 12.0 s.");
}

}  // namespace
}  // namespace attnlab
