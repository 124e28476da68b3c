// Tests what NVML says of a real GPU, idle and at work.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "harness/measure/bench.h"
#include "harness/measure/energy.h"
#include "kernels/api/telemetry.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/instruments.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/nvml.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class GpuTelemetry : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = telemetry().why_not(); !why.empty()) GTEST_SKIP() << why;
    data_ = runtime().allocate(kBytes);
  }
  void TearDown() override {
    if (data_ != nullptr) runtime().release(data_);
    GpuTest::TearDown();
  }

  static Telemetry& telemetry() { return telemetry_of(gpu()); }

  // Reads memory, which takes power.
  TimedLaunches load() {
    if (!instruments_) instruments_.emplace(gpu());
    return {.name = "load", .time = [this](int launches) {
              const Clock::time_point start = Clock::now();
              for (int i = 0; i < launches; ++i) {
                instruments_->fingerprint(static_cast<CUstream>(runtime().queue()), data_, kBytes);
              }
              runtime().synchronize();
              return seconds_since(start);
            }};
  }

  // Returns the cap that holds now.
  static double power_cap_w() {
    constexpr unsigned kPowerCurrentLimit = 190;  // NVML_FI_DEV_POWER_CURRENT_LIMIT, milliwatts
    cuda::NvmlFieldValue cap{.field = kPowerCurrentLimit};
    const cuda::NvmlReturn result =
        cuda::nvml().nvmlDeviceGetFieldValues(cuda::nvml_device(gpu()), 1, &cap);
    EXPECT_EQ(result, cuda::kNvmlSuccess);
    EXPECT_EQ(cap.result, cuda::kNvmlSuccess);
    return 1e-3 * cap.value.as_unsigned;
  }

  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 30;

 private:
  std::optional<cuda::Instruments> instruments_;
  void* data_ = nullptr;
};

// CUDA and NVML name a GPU by the same 16 bytes; of a MIG instance CUDA gives others.
TEST_F(GpuTelemetry, TheGpuIsTheOneOfTheDevice) {
  const cuda::NvmlDevice found = cuda::nvml_device(gpu());
  ASSERT_NE(found, nullptr);
  unsigned is_split = 0, will_be = 0;
  const cuda::Nvml& nvml = cuda::nvml();
  if (nvml.nvmlDeviceGetMigMode != nullptr &&
      nvml.nvmlDeviceGetMigMode(found, &is_split, &will_be) == cuda::kNvmlSuccess &&
      is_split != 0) {
    GTEST_SKIP() << "of a MIG instance NVML has the whole GPU";
  }
  cuda::NvmlReturn (*get_uuid)(cuda::NvmlDevice, char*, unsigned) = nullptr;
  cuda::Library({"libnvidia-ml.so.1"}, "").bind(get_uuid, "nvmlDeviceGetUUID");
  char of_nvml[96] = "";  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
  ASSERT_EQ(get_uuid(found, of_nvml, sizeof of_nvml), cuda::kNvmlSuccess);

  EXPECT_EQ(of_nvml, gpu().uuid);
}

TEST_F(GpuTelemetry, ClocksAndPowerArePlausibleUnderLoad) {
  load().time(100);
  const TelemetryReading reading = telemetry().read();
  EXPECT_GT(reading.multiprocessor_clock_hz.value(), 1e8);
  EXPECT_LE(reading.multiprocessor_clock_hz.value(), 1.001 * gpu().max_clock_hz);
  EXPECT_GT(reading.memory_clock_hz.value(), 1e8);
  EXPECT_GT(reading.power_w.value(), 20.0);
  EXPECT_LT(reading.power_w.value(), 1.2 * power_cap_w());
  EXPECT_NEAR(telemetry().power_limit_w().value(), power_cap_w(), 1.0);
  EXPECT_GT(reading.temperature_c.value(), 10.0);
  EXPECT_LT(reading.temperature_c.value(), 110.0);
}

TEST_F(GpuTelemetry, AReadingTakesLessThanAMillisecond) {
  constexpr int kReadings = 100;
  telemetry().read();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kReadings; ++i) telemetry().read();
  const double seconds = seconds_since(start) / kReadings;
  RecordProperty("reading_us", std::to_string(1e6 * seconds));
  EXPECT_LT(seconds, 1e-3);
}

// The counter's joules and those of many readings of the power must agree.
TEST_F(GpuTelemetry, EnergyIsPowerTimesTime) {
  double sum = 0.0;
  int readings = 0;
  TimedLaunches work = load();
  work.before = [&] {
    sum += telemetry().read().power_w.value();
    ++readings;
  };
  constexpr int kLaunches = 500;
  const double launch_s = work.time(kLaunches) / kLaunches;  // the load has begun, too
  const EnergyRecord record = measure_energy(work, launch_s, 1e9, telemetry());
  ASSERT_TRUE(record.use.has_value()) << record.reason;
  EXPECT_GE(record.use->seconds, 1.0);
  EXPECT_LT(record.use->seconds, 2.0);
  ASSERT_GE(readings, 10);
  const double mean = sum / readings;
  EXPECT_NEAR(record.use->mean_power_w, mean, 0.15 * mean);
}

// Its launches are long: a busy host queues short ones too late, and the GPU rests.
TEST_F(GpuCli, RunRecordsTelemetryAndEnergy) {
  const Result result =
      run_points("--kernel naive --dtype f16 --seqlen 4k --head-dim 64 --energy --out r.jsonl",
                 "regime=settled");
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json record = records().at(0);
  const nlohmann::json& telemetry = record["time"]["telemetry"];
  EXPECT_EQ(telemetry["reason"], "");
  EXPECT_GE(telemetry["blocks"].size(), 1u);
  EXPECT_GT(telemetry["cycles"].get<double>(), 0.0);
  EXPECT_GT(record["time"]["at_work"].get<double>(), 0.7) << "it loads for 0.7 of its turn";
  const nlohmann::json& energy = record["energy"];
  EXPECT_EQ(energy["reason"], "");
  EXPECT_GE(energy["seconds"].get<double>(), 1.0);
  EXPECT_GT(energy["picojoules_per_flop"].get<double>(), 0.0);
}

}  // namespace
}  // namespace attnlab
