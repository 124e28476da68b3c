#include "harness/measure/energy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <stop_token>

#include "harness/testing/fake_telemetry.h"

namespace attnlab {
namespace {

// Draws 200 W and counts in steps of 1/8 s. Its clock goes on while launches run, by 1/64 s at a
// time, and each time waits for the watch to look at the counter.
class MeteredDevice {
 public:
  MeteredDevice() {
    telemetry.energy = [this] { return 200.0 * std::floor(now_s_ * 8) / 8; };
  }

  TimedLaunches load(double launch_s) {
    return {.name = "load", .time = [this, launch_s](int launches) {
              const double end_s = now_s_ + launch_s * launches;
              if (is_watched_) wait_for_a_look();
              while (now_s_ < end_s) {
                now_s_ = std::min(now_s_ + 1.0 / 64, end_s);
                if (is_watched_) wait_for_a_look();
              }
              is_watched_ = true;  // from the second batch on
              return launch_s * launches;
            }};
  }
  EnergyClock clock() {
    return {[this] { return now_s_.load(); },
            [this](const std::stop_token& stop) {
              std::unique_lock lock(mutex_);
              done_ = begun_;
              changed_.notify_all();
              changed_.wait(lock, stop, [this] { return asked_ > begun_; });
              begun_ = asked_;
            }};
  }

  fake::Telemetry telemetry;

 private:
  // Waits for a look that begins after the call, until its end.
  void wait_for_a_look() {
    std::unique_lock lock(mutex_);
    const int look = ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ >= look; });
  }

  std::atomic<double> now_s_ = 0.0;
  bool is_watched_ = false;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  int asked_ = 0, begun_ = 0, done_ = 0;  // looks
};

EnergyRecord energy_of(MeteredDevice& device, const TimedLaunches& load, double launch_s) {
  return measure_energy(load, launch_s, 1e9, device.telemetry, device.clock());
}

TEST(EnergyBetween, CountsFromStepToStep) {
  // There are 10 launches a second; the steps lie within batches.
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

TEST(MeasureEnergy, OfLaunchesForASecond) {
  MeteredDevice device;
  const EnergyRecord record = energy_of(device, device.load(1.0 / 64), 1.0 / 64);
  ASSERT_TRUE(record.use.has_value()) << record.reason;
  EXPECT_EQ(record.use->seconds, 1.0);
  EXPECT_EQ(record.use->joules, 200.0);
  EXPECT_EQ(record.use->mean_power_w, 200.0);
  EXPECT_DOUBLE_EQ(record.use->launches, 64.0);
}

TEST(MeasureEnergy, ALaunchMayTakeLongerThanAStep) {
  MeteredDevice device;
  const EnergyRecord record = energy_of(device, device.load(0.75), 0.75);
  ASSERT_TRUE(record.use.has_value()) << record.reason;
  EXPECT_EQ(record.use->seconds, 1.5) << "two launches, from 0.75 s on";
  EXPECT_EQ(record.use->joules_per_call, 0.75 * 200.0);
}

TEST(MeasureEnergy, ADeviceWithoutACounterSaysSoAtOnce) {
  MeteredDevice device;
  device.telemetry.energy = nullptr;
  bool ran = false;
  TimedLaunches load = device.load(1e-3);
  load.before = [&] { ran = true; };
  EXPECT_EQ(energy_of(device, load, 1e-3).reason, "the device does not count its energy");
  device.telemetry.reason = "no NVML";
  EXPECT_EQ(energy_of(device, load, 1e-3).reason, "no NVML");
  EXPECT_FALSE(ran);
}

TEST(MeasureEnergy, ACounterThatStandsStillIsGivenUp) {
  MeteredDevice device;
  device.telemetry.energy = [] { return 7.0; };
  const EnergyRecord record = energy_of(device, device.load(1.0 / 64), 1.0 / 64);
  EXPECT_FALSE(record.use.has_value());
  EXPECT_EQ(record.reason, "the device's energy counter made 0 steps in 5.0 s");
}

TEST(MeasureEnergy, TurnsThatAreTooShortAreNotMeasured) {
  MeteredDevice device;
  TimedLaunches load = device.load(1e-4);
  load.most_launches = 50;
  bool ran = false;
  load.before = [&] { ran = true; };
  EXPECT_NE(energy_of(device, load, 1e-4).reason.find("too short"), std::string::npos);
  EXPECT_FALSE(ran);
}

TEST(MeasureEnergy, EndsWhenItIsInterrupted) {
  MeteredDevice device;
  TimedLaunches load = device.load(1.0 / 64);
  int batches = 0;
  load.before = [&] {
    if (++batches == 3) throw std::runtime_error("interrupted");
  };
  EXPECT_THROW(energy_of(device, load, 1.0 / 64), std::runtime_error);
  EXPECT_EQ(batches, 3);
}

}  // namespace
}  // namespace attnlab
