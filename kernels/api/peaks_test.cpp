#include "kernels/api/peaks.h"

#include <gtest/gtest.h>

#include <set>

namespace attnlab {
namespace {

TEST(Ceilings, NamesAreInverses) {
  std::set<CeilingId> seen;
  for (const CeilingId id : ceiling_ids()) {
    EXPECT_EQ(parse_ceiling_id(to_string(id)), id);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), kCeilings);
  EXPECT_EQ(parse_ceiling_id("tensor"), std::nullopt);
  EXPECT_STREQ(unit_of(CeilingId::tensor_bf16), "FLOP/s");
  EXPECT_STREQ(unit_of(CeilingId::l2_read), "B/s");
  EXPECT_STREQ(unit_of(CeilingId::ex2), "op/s");
}

TEST(Ceilings, PerMultiprocessorAndClock) {
  const Device device{.multiprocessors = 100};
  EXPECT_DOUBLE_EQ(per_multiprocessor_and_clock({.per_s = 3.2e12, .clock_hz = 2e9}, device), 16.0);
}

}  // namespace
}  // namespace attnlab
