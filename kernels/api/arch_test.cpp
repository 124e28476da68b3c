#include "kernels/api/arch.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/api/compiler.h"

namespace attnlab {
namespace {

int blocks(int compute_capability, int registers, int threads, std::uint64_t shared_bytes) {
  return blocks_per_multiprocessor(*find_arch(compute_capability), registers, threads,
                                   shared_bytes);
}

constexpr std::uint64_t kKib = 1024;

TEST(Occupancy, IsBoundByThreadsAndBlocks) {
  EXPECT_EQ(blocks(90, 16, 1024, 0), 2);
  EXPECT_EQ(blocks(90, 16, 128, 0), 16);
  EXPECT_EQ(blocks(90, 16, 32, 0), 32);  // blocks, not warps
  EXPECT_EQ(blocks(86, 16, 32, 0), 16);
  EXPECT_EQ(blocks(75, 16, 1024, 0), 1);
  EXPECT_EQ(blocks(80, 16, 33, 0), 32);  // two warps each
  EXPECT_EQ(blocks(80, 16, 1025, 0), 0);
}

TEST(Occupancy, IsBoundByRegisters) {
  EXPECT_EQ(blocks(80, 32, 1024, 0), 2);
  EXPECT_EQ(blocks(80, 33, 1024, 0), 1);  // 40 in effect: 1280 a warp, 48 warps
  EXPECT_EQ(blocks(80, 33, 64, 0), 24);
  EXPECT_EQ(blocks(80, 64, 1024, 0), 1);
  EXPECT_EQ(blocks(80, 65, 1024, 0), 0);  // not even one
  EXPECT_EQ(blocks(80, 255, 128, 0), 2);  // 8192 a warp, 2 warps a partition
  EXPECT_EQ(blocks(90, 168, 384, 0), 1);
  EXPECT_EQ(blocks(90, 96, 160, 0), 4);  // 5 warps a block, 20 warps fit
}

TEST(Occupancy, IsBoundBySharedMemory) {
  EXPECT_EQ(blocks(80, 32, 128, 0), 16);
  EXPECT_EQ(blocks(80, 32, 128, 163 * kKib), 1);
  EXPECT_EQ(blocks(80, 32, 128, 164 * kKib), 0);  // more than a block may ask for
  EXPECT_EQ(blocks(80, 32, 128, 81 * kKib), 2);   // 82 with what the system takes
  EXPECT_EQ(blocks(80, 32, 128, 81 * kKib + 1), 1);
  EXPECT_EQ(blocks(75, 32, 128, 32 * kKib), 2);  // there it takes nothing
  EXPECT_EQ(blocks(90, 32, 128, 227 * kKib), 1);
}

TEST(Arch, NamesGoBothWays) {
  for (const Arch& arch : known_archs()) {
    const Device device = device_of_arch(arch.name);
    EXPECT_EQ(device.backend, Backend::cuda);
    EXPECT_EQ(arch_of(device), arch.name);
    EXPECT_GT(device.multiprocessors, 0);
    EXPECT_GT(device.shared_memory_per_block_bytes, 0U);
    EXPECT_FALSE(device.name.empty());
  }
  EXPECT_EQ(arch_of(device_of_arch("sm_90")), "sm_90a");
  EXPECT_EQ(arch_of({.compute_capability = 87}), "sm_87");
  EXPECT_EQ(arch_of({.compute_capability = 103}), "sm_103a");
}

TEST(Arch, AnUnknownOneIsRefusedWithThoseThatAreKnown) {
  try {
    device_of_arch("sm_42");
    FAIL() << "nothing was thrown";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "there is no arch 'sm_42'; known are sm_75, sm_80, sm_86, sm_89, sm_90a, sm_100a, "
                 "sm_120a");
  }
}

}  // namespace
}  // namespace attnlab
