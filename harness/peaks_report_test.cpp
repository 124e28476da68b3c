#include "harness/peaks_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/test_peaks.h"
#include "harness/test_support.h"

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
  EXPECT_EQ(text, R"(NVIDIA H200, driver 580.159.04
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
