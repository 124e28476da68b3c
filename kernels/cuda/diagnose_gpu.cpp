#include <unistd.h>

#include <cstdio>

#include "kernels/cuda/diagnose.h"
#include "kernels/cuda/nvml.h"

namespace attnlab::cuda {
namespace {

constexpr unsigned kBusyPercent = 5;  // above: somebody is at work

using Setting = NvmlReturn (*)(NvmlDevice, unsigned*, unsigned*);

// Returns the first of two answers: now, and after the next reset.
std::optional<bool> is_on(Setting function, NvmlDevice gpu) {
  unsigned now = 0;
  unsigned later = 0;
  if (function == nullptr || function(gpu, &now, &later) != kNvmlSuccess) return std::nullopt;
  return now != 0;
}

std::optional<std::vector<GpuSettings::Process>> others_on(NvmlDevice gpu) {
  const auto ask = nvml().nvmlDeviceGetComputeRunningProcesses_v3;
  if (ask == nullptr) return std::nullopt;
  std::vector<NvmlProcess> found(64);
  auto count = static_cast<unsigned>(found.size());
  NvmlReturn result = ask(gpu, &count, found.data());
  if (result == kNvmlInsufficientSize) {
    found.resize(2 * static_cast<std::size_t>(count));  // it says how many there are
    count = static_cast<unsigned>(found.size());
    result = ask(gpu, &count, found.data());
  }
  if (result != kNvmlSuccess) return std::nullopt;
  found.resize(count);
  std::vector<GpuSettings::Process> others;
  for (const NvmlProcess& process : found) {
    if (process.pid == static_cast<unsigned>(getpid())) continue;
    GpuSettings::Process& other = others.emplace_back();
    other.pid = process.pid;
    if (process.memory_bytes != ~0ULL) other.memory_bytes = process.memory_bytes;
  }
  return others;
}

template <class Number>
std::optional<double> scaled(const std::optional<Number>& value, double unit) {
  if (!value) return std::nullopt;
  return static_cast<double>(*value) * unit;
}

std::string number(double value, const char* unit) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g %s", value, unit);
  return text;
}

Diagnosis judge_mig(const GpuSettings& settings) {
  if (!settings.mig.value_or(false)) return {.what = "MIG", .finding = "off"};
  return {.what = "MIG",
          .health = Health::degraded,
          .finding = "on: a slice has part of the GPU, neighbours in its caches, and no counters",
          .remedy = "use a whole GPU; as root, with nothing on it: nvidia-smi -mig 0"};
}

Diagnosis judge_others(const GpuSettings& settings) {
  Diagnosis result{.what = "processes"};
  const bool are_known = settings.others.has_value();
  const auto others = settings.others.value_or(std::vector<GpuSettings::Process>());
  const unsigned busy = settings.busy_percent.value_or(0);
  if (!others.empty()) {
    constexpr std::size_t kShown = 4;
    result.health = Health::degraded;
    for (std::size_t i = 0; i < others.size() && i < kShown; ++i) {
      result.finding += (i == 0 ? "" : ", ") + ("pid " + std::to_string(others[i].pid));
      if (const auto bytes = others[i].memory_bytes) {
        result.finding += " with " + number(static_cast<double>(*bytes >> 20), "MiB");
      }
    }
    if (others.size() > kShown) {
      result.finding += " and " + std::to_string(others.size() - kShown) + " more";
    }
    result.finding += " on this GPU besides this one";
    result.remedy = "wait for them or end them: they share its time, its caches and its power";
  } else if (busy > kBusyPercent) {
    result.health = Health::degraded;
    result.finding = "none is visible, but it is busy for " + std::to_string(busy) +
                     " % of the time: perhaps in another container";
    result.remedy = "see nvidia-smi on the host; wait until it is idle";
  } else {
    result.finding = are_known ? "no other computes on it" : "NVML does not say; it is idle";
  }
  return result;
}

Diagnosis judge_clocks(const GpuSettings& settings) {
  Diagnosis result{.what = "clock limits"};
  const auto& held = settings.applications_clock_hz;
  const auto& standard = settings.default_applications_clock_hz;
  result.finding = settings.max_clock_hz ? "up to " + number(1e-6 * *settings.max_clock_hz, "MHz")
                                         : "NVML does not say";
  if (held && standard && *held < *standard) {
    result.health = Health::degraded;
    result.finding += ", held at " + number(1e-6 * *held, "MHz") + " by its applications clocks (" +
                      number(1e-6 * *standard, "MHz") + " by default)";
    result.remedy = "as root: nvidia-smi -rac";
  }
  return result;
}

Diagnosis judge_power(const GpuSettings& settings) {
  Diagnosis result{.what = "power cap"};
  const auto& limit = settings.power_limit_w;
  const auto& standard = settings.default_power_limit_w;
  if (!limit || !standard) {
    result.finding = "NVML does not say";
  } else if (*limit < *standard) {
    result.health = Health::degraded;
    result.finding = number(*limit, "W") + ", below the default of " + number(*standard, "W");
    result.remedy = "as root: nvidia-smi -pl " + number(*standard, "") +
                    "; else compare only with records under the same cap";
  } else {
    result.finding =
        number(*limit, "W") +
        (*limit > *standard ? ", above the default of " + number(*standard, "W") : ", the default");
  }
  return result;
}

Diagnosis judge_ecc(const GpuSettings& settings) {
  Diagnosis result{.what = "ECC"};
  if (!settings.ecc) {
    result.finding = "this GPU has none, or does not say";
  } else if (!*settings.ecc) {
    result.health = Health::degraded;
    result.finding = "off: bits that flip in memory are not noticed";
    result.remedy = "as root: nvidia-smi -e 1, then reset the GPU";
  } else if (settings.uncorrected_errors.value_or(0) > 0) {
    result.health = Health::degraded;
    result.finding = "on, " + std::to_string(*settings.uncorrected_errors) +
                     " uncorrected errors since the driver was loaded";
    result.remedy = "reset the GPU; if they come back, have it looked at";
  } else {
    result.finding = "on, no uncorrected errors";
  }
  return result;
}

}  // namespace

GpuSettings read_settings(const Device& device) {
  constexpr double kMega = 1e6;
  constexpr double kMilli = 1e-3;
  const NvmlDevice gpu = nvml_device(device);
  const Nvml& api = nvml();
  const auto clock = [&](NvmlReturn (*function)(NvmlDevice, unsigned, unsigned*)) {
    return scaled(ask_nvml<unsigned>(function, gpu, kNvmlClockSm), kMega);
  };
  const auto power = [&](NvmlReturn (*function)(NvmlDevice, unsigned*)) {
    return scaled(ask_nvml<unsigned>(function, gpu), kMilli);
  };
  GpuSettings settings{.mig = is_on(api.nvmlDeviceGetMigMode, gpu), .others = others_on(gpu)};
  if (const auto busy = ask_nvml<NvmlUtilization>(api.nvmlDeviceGetUtilizationRates, gpu)) {
    settings.busy_percent = busy->gpu;
  }
  settings.max_clock_hz = clock(api.nvmlDeviceGetMaxClockInfo);
  settings.applications_clock_hz = clock(api.nvmlDeviceGetApplicationsClock);
  settings.default_applications_clock_hz = clock(api.nvmlDeviceGetDefaultApplicationsClock);
  settings.power_limit_w = power(api.nvmlDeviceGetEnforcedPowerLimit);
  settings.default_power_limit_w = power(api.nvmlDeviceGetPowerManagementDefaultLimit);
  settings.ecc = is_on(api.nvmlDeviceGetEccMode, gpu);
  settings.uncorrected_errors = ask_nvml<unsigned long long>(
      api.nvmlDeviceGetTotalEccErrors, gpu, kNvmlUncorrectedErrors, kNvmlSinceDriverLoad);
  return settings;
}

std::vector<Diagnosis> judge_settings(const GpuSettings& settings, const std::string& gpu) {
  std::vector<Diagnosis> lines = {judge_mig(settings), judge_others(settings),
                                  judge_clocks(settings), judge_power(settings),
                                  judge_ecc(settings)};
  for (Diagnosis& line : lines) line.what.insert(0, gpu + " ");
  return lines;
}

}  // namespace attnlab::cuda
