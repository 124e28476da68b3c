#include "kernels/cuda/diagnose.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "kernels/api/compiler.h"

namespace attnlab::cuda {
namespace {

constexpr const char* kUser = "Name:\tattnlab\nCapEff:\t0000000000000000\n";
constexpr const char* kRoot = "CapInh:\t0000000000000000\nCapEff:\t000001ffffffffff\n";
constexpr const char* kClosed = "EnableMSI: 1\nRmProfilingAdminOnly: 1\n";
constexpr const char* kOpen = "EnableMSI: 1\nRmProfilingAdminOnly: 0\n";

TEST(Permission, IsForRootOrForAll) {
  EXPECT_EQ(judge_permission(kClosed, kRoot).health, Health::ok);
  EXPECT_EQ(judge_permission(kOpen, kUser).health, Health::ok);
  const Diagnosis refused = judge_permission(kClosed, kUser);
  EXPECT_EQ(refused.health, Health::degraded);
  EXPECT_NE(refused.remedy.find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos);
  EXPECT_FALSE(refused.essential);
}

TEST(Permission, WithoutTheDriversWordOnlyRootIsSure) {
  EXPECT_EQ(judge_permission("", kRoot).health, Health::ok);
  EXPECT_EQ(judge_permission("", kUser).health, Health::degraded);
  EXPECT_EQ(judge_permission("", "").health, Health::degraded);
}

// The capability's neighbours do not help.
TEST(Permission, NeedsSysAdmin) {
  EXPECT_EQ(judge_permission(kClosed, "CapEff:\t0000000000200000\n").health, Health::ok);
  EXPECT_EQ(judge_permission(kClosed, "CapEff:\t0000000000500000\n").health, Health::degraded);
}

const GpuSettings kGood = {.mig = false,
                           .others = std::vector<GpuSettings::Process>(),
                           .busy_percent = 0,
                           .max_clock_hz = 1980e6,
                           .applications_clock_hz = 1980e6,
                           .default_applications_clock_hz = 1980e6,
                           .power_limit_w = 700.0,
                           .default_power_limit_w = 700.0,
                           .ecc = true,
                           .uncorrected_errors = 0};

// Returns the lines that are not ok, as "what: finding".
std::vector<std::string> complaints(const GpuSettings& settings) {
  std::vector<std::string> found;
  for (const Diagnosis& line : judge_settings(settings, "GPU 1")) {
    if (line.health == Health::ok) continue;
    EXPECT_NE(line.remedy, "") << line.what;
    found.push_back(line.what + ": " + line.finding);
  }
  return found;
}

using Complaints = std::vector<std::string>;

TEST(Settings, AGpuOfItsOwnAsItWasSoldIsFine) { EXPECT_EQ(complaints(kGood), Complaints{}); }

TEST(Settings, WhatAGpuDoesNotSayIsNoComplaint) { EXPECT_EQ(complaints({}), Complaints{}); }

TEST(Settings, EachDeviationIsOneComplaint) {
  GpuSettings settings = kGood;
  settings.mig = true;
  EXPECT_EQ(complaints(settings).size(), 1u);
  settings = kGood;
  settings.power_limit_w = 500.0;
  EXPECT_EQ(complaints(settings), Complaints{"GPU 1 power cap: 500 W, below the default of 700 W"});
  settings = kGood;
  settings.applications_clock_hz = 1200e6;
  EXPECT_EQ(complaints(settings),
            Complaints{"GPU 1 clock limits: up to 1980 MHz, held at 1200 MHz by its applications "
                       "clocks (1980 MHz by default)"});
  settings = kGood;
  settings.ecc = false;
  EXPECT_EQ(complaints(settings).size(), 1u);
  settings = kGood;
  settings.uncorrected_errors = 2;
  EXPECT_EQ(complaints(settings).size(), 1u);
}

TEST(Settings, OthersOnTheGpuAreNamed) {
  GpuSettings settings = kGood;
  settings.busy_percent = 90;
  EXPECT_EQ(complaints(settings).size(), 1u);  // whom we cannot see
  settings.others = {{.pid = 11, .memory_bytes = std::uint64_t{3} << 20}, {.pid = 12}};
  EXPECT_EQ(complaints(settings),
            Complaints{"GPU 1 processes: pid 11 with 3 MiB, pid 12 on this GPU besides this one"});
}

TEST(Libraries, EveryLineThatIsNotOkHasAFindingAndARemedy) {
  // The worker must not be this program, which would begin all its tests.
  set_compiler(
      {.cache_folder = testing::TempDir() + "attnlab_doctor", .worker_program = "/bin/false"});
  const std::vector<Diagnosis> lines = diagnose_libraries();
  set_compiler({});
  std::filesystem::remove_all(testing::TempDir() + "attnlab_doctor");
  EXPECT_GE(lines.size(), 12u);
  for (const Diagnosis& line : lines) {
    EXPECT_NE(line.finding, "") << line.what;
    EXPECT_EQ(line.remedy.empty(), line.health == Health::ok) << line.what;
    if (line.what == "compiler worker") {
      EXPECT_EQ(line.health, Health::missing) << line.finding;
      EXPECT_TRUE(line.essential);
    }
  }
}

}  // namespace
}  // namespace attnlab::cuda
