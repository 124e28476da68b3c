#include "harness/plan/gpus.h"

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <string>

#include "harness/testing/test_support.h"
#include "kernels/api/compiler.h"

namespace attnlab {
namespace {

const Gpu& gpu(const std::string& name) { return *parse_gpus(name, "--gpu").front(); }

TEST(Gpus, EveryRowNamesItsVariantAndItsSource) {
  ASSERT_EQ(gpus().size(), 6u);
  for (const Gpu& row : gpus()) {
    EXPECT_NE(std::string(row.variant), "") << row.name;
    for (const char* part : {"NVIDIA", "emory: ", "Shared memory: CUDA C++ Programming Guide"}) {
      EXPECT_PRED2(contains, row.source, part);
    }
    EXPECT_EQ(&gpu(row.name), &row);
  }
}

TEST(Gpus, EveryRowIsADeviceThatKernelsCanBePlannedFor) {
  for (const Gpu& row : gpus()) {
    const Device device = device_of(row);
    EXPECT_EQ(device.backend, Backend::cuda);
    EXPECT_EQ(device.name, row.name);
    EXPECT_EQ(arch_of(device), row.chip.arch);
    EXPECT_EQ(device.multiprocessors, *row.chip.sms);
    EXPECT_EQ(static_cast<std::int64_t>(device.l2_bytes), *row.chip.l2_bytes);
    // A block gets all of a multiprocessor's shared memory but, from 8.0 on, the system's KiB.
    const std::int64_t for_block =
        *row.chip.sram_bytes - (device.compute_capability >= 80 ? 1024 : 0);
    EXPECT_EQ(static_cast<std::int64_t>(device.shared_memory_per_block_bytes), for_block);
  }
}

TEST(Gpus, NamesAreFoundHoweverTheyAreWritten) {
  const auto chosen = parse_gpus("rtx 3090,a-100, h200", "--gpu");
  ASSERT_EQ(chosen.size(), 3u);
  EXPECT_STREQ(chosen[0]->name, "RTX3090");
  EXPECT_STREQ(chosen[1]->name, "A100");
  EXPECT_STREQ(chosen[2]->name, "H200");
}

TEST(Gpus, WrongNamesGetARemedy) {
  const auto error = [](const char* text) {
    return usage_error([&] { parse_gpus(text, "--gpu"); });
  };
  EXPECT_EQ(error("A10"), "--gpu: no data of a GPU 'A10'; did you mean 'A100'?");
  EXPECT_EQ(error("H100,H10O"), "--gpu: no data of a GPU 'H10O'; did you mean 'H100'?");
  EXPECT_EQ(error("MI300X"),
            "--gpu: no data of a GPU 'MI300X'; there are: A100, H100, H200, T4, L4, RTX3090");
  EXPECT_EQ(error("T4,t4"), "--gpu: T4 is given twice");
  EXPECT_PRED2(starts_with, error(""), "--gpu: a name is missing; there are: A100");
  EXPECT_PRED2(starts_with, error("T4,"), "--gpu: a name is missing");
}

// A peak is SMs x FLOP a clock of one SM x boost clock; the bandwidth is data rate x width. What
// one SM does in a clock is in the white papers, and in the arithmetic of its tensor cores and FMA
// units; clocks are those that the white papers base their peaks on, or that a driver reports.
struct Arithmetic {
  const char* name;
  double tensor_flops, tensor_hz;  // fp32 accumulation, dense
  double fma_flops, fma_hz;
  double bits_per_s;  // 0: sources disagree about the memory's clock
};

TEST(Gpus, PeaksAreWhatTheSmsDoAtTheirClocks) {
  const Arithmetic rows[] = {
      {"A100", 2048, 1410e6, 128, 1410e6, 5120 * 2 * 1593e6},
      {"H100", 4096, 1830e6, 256, 1980e6, 5120 * 2 * 2619e6},  // two clocks: tensor, other
      {"H200", 4096, 1830e6, 256, 1980e6, 0},
      {"T4", 1024, 1590e6, 128, 1590e6, 256 * 2 * 5001e6},
      {"L4", 1024, 2040e6, 256, 2040e6, 192 * 2 * 6251e6},
      {"RTX3090", 512, 1695e6, 256, 1695e6, 384 * 19.5e9},
  };
  ASSERT_EQ(std::size(rows), gpus().size());
  for (const Arithmetic& row : rows) {
    const Gpu& it = gpu(row.name);
    const auto sms = static_cast<double>(*it.chip.sms);
    const auto expect_peak = [&](const std::optional<double>& peak, double by_hand) {
      // Sheets give two or three digits, so 8.1 stands for 8.14.
      EXPECT_NEAR(peak.value_or(by_hand) / by_hand, 1.0, 0.0055) << row.name;
    };
    expect_peak(it.flops_per_s.f16, sms * row.tensor_flops * row.tensor_hz);
    expect_peak(it.flops_per_s.bf16, sms * row.tensor_flops * row.tensor_hz);
    expect_peak(it.flops_per_s.f32, sms * row.fma_flops * row.fma_hz);
    if (row.bits_per_s > 0) expect_peak(it.memory.bytes_per_s, row.bits_per_s / 8);
  }
}

// 312e12 / 2039e9 is 153.016 FLOP a byte. 3.12e12 FLOP take 10 ms, 20.39e9 bytes as well.
TEST(Gpus, RooflineOfAnA100ByHand) {
  const Gpu& a100 = gpu("A100");
  EXPECT_NEAR(*ridge_flops_per_byte(a100, Dtype::f16), 153.0162, 1e-4);
  EXPECT_NEAR(*ridge_flops_per_byte(a100, Dtype::f32), 9.56351, 1e-5);
  const Roofline above = *roofline(a100, Dtype::f16, 3.12e12, 20.38e9);
  EXPECT_EQ(above.limit, Limit::compute);
  EXPECT_DOUBLE_EQ(above.seconds, 0.01);
  const Roofline below = *roofline(a100, Dtype::f16, 3.11e12, 20.39e9);
  EXPECT_EQ(below.limit, Limit::memory);
  EXPECT_DOUBLE_EQ(below.seconds, 0.01);
  EXPECT_DOUBLE_EQ(roofline(a100, Dtype::f32, 19.5e12, 1.0)->seconds, 1.0);
}

TEST(Gpus, WithoutASourceThereIsNoNumber) {
  const Gpu& t4 = gpu("T4");
  EXPECT_FALSE(peak_flops_per_s(t4, Dtype::bf16));
  EXPECT_FALSE(ridge_flops_per_byte(t4, Dtype::bf16));
  EXPECT_FALSE(roofline(t4, Dtype::bf16, 1.0, 1.0));
  Gpu no_bandwidth = t4;
  no_bandwidth.memory.bytes_per_s.reset();
  EXPECT_FALSE(roofline(no_bandwidth, Dtype::f16, 1.0, 1.0));
}

}  // namespace
}  // namespace attnlab
