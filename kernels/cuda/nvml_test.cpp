#include "kernels/cuda/nvml.h"

#include <gtest/gtest.h>

#include "kernels/cuda/library.h"

namespace attnlab::cuda {
namespace {

NvmlReturn clock_of(NvmlDevice /*device*/, unsigned which, unsigned* megahertz) {
  *megahertz = 1000 + which;
  return kNvmlSuccess;
}

NvmlReturn not_supported(NvmlDevice /*device*/, unsigned /*which*/, unsigned* megahertz) {
  *megahertz = 7;
  return 3;
}

TEST(Nvml, AnAnswerIsTheLastParameter) {
  EXPECT_EQ(ask_nvml<unsigned>(clock_of, NvmlDevice{}, kNvmlClockMemory), 1002u);
}

TEST(Nvml, NoAnswerIsNoValue) {
  EXPECT_EQ(ask_nvml<unsigned>(not_supported, NvmlDevice{}, kNvmlClockSm), std::nullopt);
  decltype(Nvml::nvmlDeviceGetClockInfo) missing = nullptr;
  EXPECT_EQ(ask_nvml<unsigned>(missing, NvmlDevice{}, kNvmlClockSm), std::nullopt);
}

TEST(Nvml, WhatIsMissingIsNamedWithTheRemedy) {
  try {
    nvml();
    GTEST_SKIP() << "this machine has NVML";
  } catch (const MissingLibrary& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("libnvidia-ml.so.1"), std::string::npos) << words;
    EXPECT_NE(words.find("NVIDIA_DRIVER_CAPABILITIES"), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace attnlab::cuda
