#include "kernels/api/traffic.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace attnlab {
namespace {

// Returns counts of which every field differs from every other.
Traffic numbered() {
  Traffic traffic;
  std::int64_t next = 1;
  for (OperandTraffic& operand : traffic.operands) {
    operand.read_bytes = next++;
    operand.write_bytes = next++;
  }
  traffic.tiles = {.empty = 100, .partial = 200, .full = 300};
  traffic.executed_flops = 1000;
  return traffic;
}

TEST(Traffic, TotalsSumTheOperands) {
  EXPECT_EQ(numbered().read_bytes(), 16 * 16);   // 1 + 3 + ... + 31
  EXPECT_EQ(numbered().write_bytes(), 16 * 17);  // 2 + 4 + ... + 32
  EXPECT_EQ(Traffic().read_bytes(), 0);
}

TEST(Traffic, IsIndexedByOperand) {
  Traffic traffic;
  traffic[Operand::l].write_bytes = 5;
  traffic[Operand::q].read_bytes = 7;
  EXPECT_EQ(traffic.operands.back().write_bytes, 5);
  EXPECT_EQ(traffic.operands.front().read_bytes, 7);
}

TEST(Traffic, TimesIsRepeatedAddition) {
  Traffic added = numbered();
  added += numbered();
  added += numbered();
  Traffic multiplied = numbered();
  multiplied *= 3;
  EXPECT_EQ(added, multiplied);
  for (std::size_t i = 0; i < kOperands; ++i) {
    EXPECT_EQ(added.operands[i].read_bytes, 3 * numbered().operands[i].read_bytes);
    EXPECT_EQ(added.operands[i].write_bytes, 3 * numbered().operands[i].write_bytes);
  }
  EXPECT_EQ(added.tiles, (TileCounts{.empty = 300, .partial = 600, .full = 900}));
  EXPECT_EQ(added.executed_flops, 3000);
}

TEST(Traffic, OperandsHaveDifferentNames) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kOperands; ++i) names.insert(to_string(static_cast<Operand>(i)));
  EXPECT_EQ(names.size(), kOperands);
  EXPECT_STREQ(to_string(Operand::lse), "lse");
  EXPECT_STREQ(to_string(Operand::delta), "delta");
  EXPECT_STREQ(to_string(Operand::l), "l");
}

}  // namespace
}  // namespace attnlab
