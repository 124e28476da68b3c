#include "kernels/cuda/peaks.h"

#include <gtest/gtest.h>

#include "kernels/api/compiler.h"
#include "kernels/cuda/peak_kernels.h"

namespace attnlab::cuda {
namespace {

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

Device h200() {
  Device device = device_of_arch("sm_90a");
  device.memory_bytes = 140 * kGib;
  device.l2_bytes = 60 << 20;
  return device;
}

TEST(PeakSizes, ProductsFitAnEighthOfTheMemory) {
  Device device = h200();
  EXPECT_EQ(product_rows(device, 2), 8192U);
  EXPECT_EQ(product_rows(device, 4), 8192U);
  device.memory_bytes = 4 * kGib;
  EXPECT_EQ(product_rows(device, 2), 8192U);  // 384 of 512 MiB
  EXPECT_EQ(product_rows(device, 4), 4096U);
}

TEST(PeakSizes, StreamsAreLargeAgainstTheL2AndWholeSteps) {
  Device device = h200();
  const std::uint64_t blocks = 12 * 132;
  const std::uint64_t chunks = streamed_chunks(device, blocks);
  EXPECT_EQ(chunks % blocks, 0U);
  EXPECT_GE(chunks * kPeakChunkBytes, 120 * device.l2_bytes);
  EXPECT_LE(chunks * kPeakChunkBytes, 128 * device.l2_bytes);
  device.memory_bytes = 8 * kGib;
  EXPECT_LE(streamed_chunks(device, blocks) * kPeakChunkBytes, 2 * kGib);
  device.memory_bytes = 1 << 20;
  EXPECT_EQ(streamed_chunks(device, blocks), blocks);
}

TEST(PeakSizes, WhatIsCachedIsAQuarterOfTheL2) {
  EXPECT_EQ(cached_chunks(h200()) * kPeakChunkBytes, 15U << 20);
  EXPECT_EQ(cached_chunks(Device{}), 1U);
}

}  // namespace
}  // namespace attnlab::cuda
