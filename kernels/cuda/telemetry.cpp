#include "kernels/cuda/telemetry.h"

#include <exception>
#include <map>
#include <memory>
#include <sstream>

#include "kernels/cuda/nvml.h"

namespace attnlab::cuda {
namespace {

struct Reason {
  unsigned long long bit;
  const char* words;
};

constexpr Reason kReasons[] = {
    {kNvmlReasonGpuIdle, "idle"},
    {kNvmlReasonApplicationsClocks, "applications clocks"},
    {kNvmlReasonPowerCap, "power cap"},
    {kNvmlReasonHardwareSlowdown, "hardware slowdown"},
    {kNvmlReasonSyncBoost, "sync boost"},
    {kNvmlReasonSoftwareThermal, "software thermal slowdown"},
    {kNvmlReasonHardwareThermal, "hardware thermal slowdown"},
    {kNvmlReasonPowerBrake, "power brake"},
    {kNvmlReasonDisplayClocks, "display clocks"},
};

template <class Number>
std::optional<double> scaled(const std::optional<Number>& value, double unit) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value) * unit;
}

class GpuTelemetry final : public Telemetry {
 public:
  explicit GpuTelemetry(const Device& device) {
    try {
      gpu_ = nvml_device(device);
    } catch (const std::exception& error) {
      why_not_ = error.what();
    }
  }

  std::string why_not() override { return why_not_; }

  TelemetryReading read() override {
    TelemetryReading reading;
    if (!why_not_.empty()) return reading;
    const Nvml& api = nvml();
    constexpr double kMega = 1e6;
    reading.multiprocessor_clock_hz =
        scaled(ask_nvml<unsigned>(api.nvmlDeviceGetClockInfo, gpu_, kNvmlClockSm), kMega);
    if (const auto bits =
            ask_nvml<unsigned long long>(api.nvmlDeviceGetCurrentClocksEventReasons, gpu_)) {
      reading.throttle_reasons = throttle_reasons(*bits);
    }
    reading.power_w = power_w();
    reading.memory_clock_hz =
        scaled(ask_nvml<unsigned>(api.nvmlDeviceGetClockInfo, gpu_, kNvmlClockMemory), kMega);
    reading.temperature_c =
        scaled(ask_nvml<unsigned>(api.nvmlDeviceGetTemperature, gpu_, kNvmlTemperatureGpu), 1.0);
    return reading;
  }

  std::optional<double> energy_j() override {
    if (!why_not_.empty()) return std::nullopt;
    constexpr double kMilli = 1e-3;
    return scaled(ask_nvml<unsigned long long>(nvml().nvmlDeviceGetTotalEnergyConsumption, gpu_),
                  kMilli);
  }

  std::optional<double> power_limit_w() override {
    if (!why_not_.empty()) return std::nullopt;
    constexpr double kMilli = 1e-3;
    return scaled(ask_nvml<unsigned>(nvml().nvmlDeviceGetEnforcedPowerLimit, gpu_), kMilli);
  }

 private:
  // Returns the power of now, or, where the GPU has no such number, what it calls its power usage.
  std::optional<double> power_w() {
    constexpr double kMilli = 1e-3;
    NvmlFieldValue now{.field = kNvmlFieldPowerInstant};
    const Nvml& api = nvml();
    if (api.nvmlDeviceGetFieldValues != nullptr &&
        api.nvmlDeviceGetFieldValues(gpu_, 1, &now) == kNvmlSuccess && now.result == kNvmlSuccess) {
      return kMilli * now.value.as_unsigned;
    }
    return scaled(ask_nvml<unsigned>(api.nvmlDeviceGetPowerUsage, gpu_), kMilli);
  }

  std::string why_not_;
  NvmlDevice gpu_ = nullptr;
};

}  // namespace

std::vector<std::string> throttle_reasons(unsigned long long bits) {
  std::vector<std::string> words;
  for (const Reason& reason : kReasons) {
    if ((bits & reason.bit) != 0) words.emplace_back(reason.words);
    bits &= ~reason.bit;
  }
  if (bits != 0) {
    std::ostringstream unknown;
    unknown << "unknown (0x" << std::hex << bits << ")";
    words.push_back(unknown.str());
  }
  return words;
}

Telemetry& telemetry_of(const Device& device) {
  static std::map<int, std::unique_ptr<GpuTelemetry>> all;
  std::unique_ptr<GpuTelemetry>& one = all[device.ordinal];
  if (!one) one = std::make_unique<GpuTelemetry>(device);
  return *one;
}

}  // namespace attnlab::cuda
