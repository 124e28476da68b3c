#include "harness/report/peaks_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/testing/test_peaks.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

TEST(PeakReport, HasEveryNumber) {
  const auto report = make_peak_report(h200_peaks(), h200());
  const auto& f16 = report["ceilings"][0];
  EXPECT_EQ(f16["id"], "tensor_f16");
  EXPECT_DOUBLE_EQ(f16["burst"]["per_s"], 800e12);
  EXPECT_DOUBLE_EQ(f16["settled"]["per_multiprocessor_and_clock"], 640e12 / (132 * 1.5e9));
  EXPECT_DOUBLE_EQ(f16["settled_percent_of_datasheet"], 100 * 640 / 989.4);
  EXPECT_EQ(report["datasheet"]["variant"], "H200 SXM 141 GB");
  const auto& shared = report["memory"][0];
  EXPECT_EQ(shared["bytes"], 132 * (227 << 10));
  EXPECT_NEAR(shared["settled_bytes_per_multiprocessor_and_clock"].get<double>(), 120.0, 1e-9);
  EXPECT_EQ(report["memory"][1]["bytes"], 60 << 20);
  EXPECT_TRUE(report["memory"][1]["datasheet_bytes_per_s"].is_null());
  EXPECT_DOUBLE_EQ(report["memory"][2]["settled_bytes_per_s"], 4.0e12);
  EXPECT_DOUBLE_EQ(report["memory"][2]["datasheet_bytes_per_s"], 4.8e12);
  EXPECT_TRUE(report["memory"][2]["settled_bytes_per_multiprocessor_and_clock"].is_null());
}

TEST(PeakReport, WhatIsInvalidOrMissingHasAReasonAndNoRate) {
  Peaks peaks = h200_peaks();
  peaks.ceilings[0] = {.id = CeilingId::tensor_f16, .reason = "there is no cuBLAS"};
  peaks.ceilings[5].settled.per_s = 6e12;  // HBM
  const auto report = make_peak_report(peaks, h200());
  EXPECT_TRUE(report["ceilings"][0]["settled"].is_null());
  EXPECT_EQ(report["ceilings"][0]["reason"], "there is no cuBLAS");
  EXPECT_TRUE(report["ceilings"][5]["settled"].is_null());
  EXPECT_TRUE(report["ceilings"][5]["settled_percent_of_datasheet"].is_null());
  EXPECT_TRUE(report["memory"][2]["settled_bytes_per_s"].is_null());
  const std::string text = render_peaks(report, TableFormat::table);
  EXPECT_PRED2(contains, text, "- [1]");
  EXPECT_PRED2(contains, text, "[1] there is no cuBLAS");
  EXPECT_PRED2(contains, text, "invalid [2]");
  EXPECT_PRED2(contains, text, "[2] hbm_read settled measured 6e+12 B/s");
}

TEST(PeakReport, ATableForPeople) {
  const auto report = make_peak_report(h200_peaks(), h200());
  const std::string text = render_peaks(report, TableFormat::table);
  EXPECT_EQ(text, R"(NVIDIA H200, driver 580.159.04, 132 multiprocessors, at most 1980 MHz; measured
2025-01-01T00:00:00Z. Burst: the first 20 ms after a second of rest; settled: after 1.5 s of the
same load. Data sheet: H200 SXM 141 GB.

ceiling      unit     burst  settled  per SM and clk  MHz burst  MHz settled  data sheet  settled %
---------------------------------------------------------------------------------------------------
tensor_f16   TFLOP/s  800.0    640.0          3232.3       1980         1500       989.4       64.7
tensor_bf16  TFLOP/s  820.0    660.0          3333.3       1980         1500       989.4       66.7
tensor_tf32  TFLOP/s  400.0    320.0          1616.2       1980         1500           -          -
fma_f32      TFLOP/s  60.00    50.00           252.5       1980         1500       66.90       74.7
hbm_copy     TB/s     4.000    3.900               -       1980         1500       4.800       81.2
hbm_read     TB/s     4.500    4.000               -       1980         1500       4.800       83.3
l2_read      TB/s     9.000    8.000            40.4       1980         1500           -          -
shared_read  TB/s     33.00    23.76           120.0       1980         1500       33.45       71.0
ex2          Top/s    4.000    2.970            15.0       1980         1500       4.182       71.0

memory              size  read TB/s  B per SM and clk  data sheet TB/s
----------------------------------------------------------------------
shared memory   29.3 MiB      23.76             120.0            33.45
L2              60.0 MiB      8.000              40.4                -
HBM            139.7 GiB      4.000                 -            4.800

tensor_f16: by a test.
tensor_bf16: by a test.
tensor_tf32: by a test.
fma_f32: by a test.
hbm_copy: by a test.
hbm_read: by a test.
l2_read: by a test.
shared_read: by a test.
ex2: by a test.
)");
}

TEST(PeakReport, ADeviceThatNoSheetKnows) {
  Device device = h200();
  device.name = "NVIDIA H300";
  const std::string text = render_peaks(make_peak_report(h200_peaks(), device), TableFormat::table);
  EXPECT_PRED2(contains, text, "No row of the data sheets is this GPU.");
}

}  // namespace
}  // namespace attnlab
