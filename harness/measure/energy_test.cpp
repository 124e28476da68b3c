#include "harness/measure/energy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "harness/testing/fake_telemetry.h"

namespace attnlab {
namespace {

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A counter of 0.1 s, of a device that always draws 200 W.
std::optional<double> steps_at_200_watt() { return 20.0 * std::floor(now_s() / 0.1); }

TimedLaunches sleeper(double launch_s) {
  return {.name = "sleeper", .time = [launch_s](int launches) {
            std::this_thread::sleep_for(std::chrono::duration<double>(launch_s * launches));
            return launch_s * launches;
          }};
}

TEST(EnergyBetween, CountsFromStepToStep) {
  // 10 launches a second; the steps lie within batches.
  const EnergyUse use = energy_between({{1.25, 100.0}, {1.75, 180.0}, {2.75, 400.0}},
                                       {{1.0, 0.0}, {2.0, 10.0}, {3.0, 20.0}}, 1e12);
  EXPECT_DOUBLE_EQ(use.seconds, 1.5);
  EXPECT_DOUBLE_EQ(use.launches, 15.0);
  EXPECT_DOUBLE_EQ(use.joules, 300.0);
  EXPECT_DOUBLE_EQ(use.joules_per_call, 20.0);
  EXPECT_DOUBLE_EQ(use.picojoules_per_flop.value(), 20.0);
  EXPECT_DOUBLE_EQ(use.mean_power_w, 200.0);
}

TEST(EnergyBetween, LaunchesNeedNotTakeEquallyLong) {
  const EnergyUse use = energy_between({{0.5, 0.0}, {2.5, 1.0}},
                                       {{0.0, 0.0}, {1.0, 8.0}, {2.0, 10.0}, {3.0, 18.0}}, 1.0);
  EXPECT_DOUBLE_EQ(use.launches, 4.0 + 2.0 + 4.0);
}

TEST(EnergyBetween, WithoutWorkThereIsNoEnergyOfAFlop) {
  EXPECT_EQ(
      energy_between({{0.0, 0.0}, {1.0, 1.0}}, {{0.0, 0.0}, {1.0, 1.0}}, 0.0).picojoules_per_flop,
      std::nullopt);
}

TEST(EnergyBetween, OneStepIsNotEnough) {
  EXPECT_THROW(energy_between({{0.0, 0.0}}, {{0.0, 0.0}, {1.0, 1.0}}, 1.0), std::invalid_argument);
}

// Wide bounds: a loaded machine sees steps late.
TEST(MeasureEnergy, OfLaunchesForASecond) {
  fake::Telemetry telemetry;
  telemetry.energy = steps_at_200_watt;
  const EnergyRecord record = measure_energy(sleeper(1e-3), 1e-3, 1e9, telemetry);
  ASSERT_TRUE(record.use.has_value()) << record.reason;
  EXPECT_GE(record.use->seconds, 1.0);
  EXPECT_GE(record.use->joules, 200.0);
  EXPECT_NEAR(record.use->mean_power_w, 200.0, 40.0);
  EXPECT_LE(record.use->launches, 1e3 * record.use->seconds);
  EXPECT_GE(record.use->launches, 100.0);
}

TEST(MeasureEnergy, ALaunchMayTakeLongerThanAStep) {
  fake::Telemetry telemetry;
  telemetry.energy = steps_at_200_watt;
  const EnergyRecord record = measure_energy(sleeper(0.7), 0.7, 1e9, telemetry);
  ASSERT_TRUE(record.use.has_value()) << record.reason;
  EXPECT_NEAR(record.use->joules_per_call, 0.7 * 200.0, 40.0);
}

TEST(MeasureEnergy, ADeviceWithoutACounterSaysSoAtOnce) {
  fake::Telemetry telemetry;
  bool ran = false;
  TimedLaunches load = sleeper(1e-3);
  load.before = [&] { ran = true; };
  EXPECT_EQ(measure_energy(load, 1e-3, 1e9, telemetry).reason,
            "the device does not count its energy");
  telemetry.reason = "no NVML";
  EXPECT_EQ(measure_energy(load, 1e-3, 1e9, telemetry).reason, "no NVML");
  EXPECT_FALSE(ran);
}

TEST(MeasureEnergy, ACounterThatStandsStillIsGivenUp) {
  fake::Telemetry telemetry;
  telemetry.energy = [] { return 7.0; };
  const EnergyRecord record = measure_energy(sleeper(1e-3), 1e-3, 1e9, telemetry);
  EXPECT_FALSE(record.use.has_value());
  EXPECT_NE(record.reason.find("made 0 steps in 5"), std::string::npos) << record.reason;
}

TEST(MeasureEnergy, TurnsThatAreTooShortAreNotMeasured) {
  fake::Telemetry telemetry;
  telemetry.energy = [] { return 7.0; };
  TimedLaunches load = sleeper(1e-4);
  load.most_launches = 50;
  bool ran = false;
  load.before = [&] { ran = true; };
  EXPECT_NE(measure_energy(load, 1e-4, 1e9, telemetry).reason.find("too short"), std::string::npos);
  EXPECT_FALSE(ran);
}

TEST(MeasureEnergy, EndsWhenItIsInterrupted) {
  fake::Telemetry telemetry;
  telemetry.energy = steps_at_200_watt;
  TimedLaunches load = sleeper(1e-3);
  int batches = 0;
  load.before = [&] {
    if (++batches == 3) throw std::runtime_error("interrupted");
  };
  EXPECT_THROW(measure_energy(load, 1e-3, 1e9, telemetry), std::runtime_error);
}

}  // namespace
}  // namespace attnlab
