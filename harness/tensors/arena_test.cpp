#include "harness/tensors/arena.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <tuple>

namespace attnlab {
namespace {

TEST(Arena, CountsCurrentAndPeak) {
  Arena arena;
  const Arena::Buffer kept = arena.allocate("kept", 100);
  {
    const Arena::Buffer passing = arena.allocate("passing", 1000);
    EXPECT_EQ(arena.current_bytes(), 1100u);
  }
  EXPECT_EQ(arena.current_bytes(), 100u);
  const Arena::Buffer small = arena.allocate("small", 10);
  EXPECT_EQ(arena.peak_bytes(), 1100u);
  arena.reset_peak();
  EXPECT_EQ(arena.peak_bytes(), 110u);
}

TEST(Arena, BuffersAreAlignedAndNaN) {
  Arena arena;
  for (const std::uint64_t bytes : {4u, 260u, 4096u}) {
    const Arena::Buffer buffer = arena.allocate("x", bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.get()) % Arena::kAlignment, 0u);
    const float* values = static_cast<const float*>(buffer.get());
    // 512 elements on both sides are guards.
    const auto count = static_cast<std::int64_t>(bytes / 4);
    for (std::int64_t i = -512; i < count + 512; ++i) ASSERT_TRUE(std::isnan(values[i])) << i;
  }
}

TEST(Arena, NamesTheTensorThatWasOverrun) {
  Arena arena;
  const Arena::Buffer a = arena.allocate("a", 12);
  const Arena::Buffer b = arena.allocate("b", 12);
  EXPECT_EQ(arena.restore_guards(), "");
  float* values = static_cast<float*>(b.get());
  values[0] = values[2] = 1.0f;
  EXPECT_EQ(arena.restore_guards(), "") << "writes inside are no overrun";
  values[3] = 1.0f;
  EXPECT_EQ(arena.restore_guards(), "wrote outside b, 0 bytes past its last byte");
  EXPECT_EQ(arena.restore_guards(), "") << "restored";
  values[-512] = 0.0f;
  EXPECT_EQ(arena.restore_guards(), "wrote outside b, 2045 bytes before its first byte");
  values[3 + 511] = 0.0f;
  EXPECT_EQ(arena.restore_guards(), "wrote outside b, 2044 bytes past its last byte");
}

TEST(Arena, EmptyBuffersAreGuardedToo) {
  Arena arena;
  const Arena::Buffer none = arena.allocate("none", 0);
  ASSERT_NE(none.get(), nullptr);
  static_cast<unsigned char*>(none.get())[0] = 0;
  EXPECT_NE(arena.restore_guards(), "");
}

TEST(Arena, RefusedAllocationChangesNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's allocator ends the process instead";
#endif
  Arena arena;
  EXPECT_THROW(std::ignore = arena.allocate("huge", std::uint64_t{1} << 60), std::bad_alloc);
  EXPECT_EQ(arena.current_bytes(), 0u);
  EXPECT_EQ(arena.restore_guards(), "");
}

}  // namespace
}  // namespace attnlab
