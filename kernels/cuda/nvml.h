// Opens NVIDIA's management library when it is first needed: it says what a GPU's clocks, power and
// settings are. CUDA's toolkit need not have its header, so what is called is declared here.
// Source: NVML API Reference Guide.
#pragma once

#include <optional>
#include <string>

#include "kernels/api/device.h"

namespace attnlab::cuda {

using NvmlReturn = int;                        // nvmlReturn_t
using NvmlDevice = struct NvmlDeviceOpaque*;   // nvmlDevice_t
inline constexpr NvmlReturn kNvmlSuccess = 0;  // NVML_SUCCESS

// These are of nvmlClockType_t; clocks are in MHz.
inline constexpr unsigned kNvmlClockSm = 1;
inline constexpr unsigned kNvmlClockMemory = 2;

inline constexpr unsigned kNvmlTemperatureGpu = 0;  // nvmlTemperatureSensors_t; in degrees Celsius

// These are nvmlClocksEventReason...: bits of nvmlDeviceGetCurrentClocksEventReasons.
inline constexpr unsigned long long kNvmlReasonGpuIdle = 0x1;
inline constexpr unsigned long long kNvmlReasonApplicationsClocks = 0x2;
inline constexpr unsigned long long kNvmlReasonPowerCap = 0x4;
inline constexpr unsigned long long kNvmlReasonHardwareSlowdown = 0x8;
inline constexpr unsigned long long kNvmlReasonSyncBoost = 0x10;
inline constexpr unsigned long long kNvmlReasonSoftwareThermal = 0x20;
inline constexpr unsigned long long kNvmlReasonHardwareThermal = 0x40;
inline constexpr unsigned long long kNvmlReasonPowerBrake = 0x80;
inline constexpr unsigned long long kNvmlReasonDisplayClocks = 0x100;

// NVML_FI_DEV_POWER_INSTANT gives milliwatts now, as an unsigned int. nvmlDeviceGetPowerUsage is a
// mean over one second on GPUs since Ampere (but GA100).
inline constexpr unsigned kNvmlFieldPowerInstant = 186;

// This is nvmlFieldValue_t.
struct NvmlFieldValue {
  unsigned field = 0;
  unsigned scope = 0;  // 0: the GPU
  long long timestamp_us = 0;
  long long latency_us = 0;
  int type = 0;  // of `value`; each field has one and the same
  NvmlReturn result = kNvmlSuccess;
  union {
    unsigned as_unsigned;
    unsigned long long as_unsigned_long_long = 0;
  } value;
};
static_assert(sizeof(NvmlFieldValue) == 40);

// This is nvmlProcessInfo_t since version 2.
struct NvmlProcess {
  unsigned pid = 0;
  unsigned long long memory_bytes = 0;  // all bits set: not known
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};
static_assert(sizeof(NvmlProcess) == 24);

// This is nvmlUtilization_t, in percent of the last sample period, up to a second.
struct NvmlUtilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

inline constexpr NvmlReturn kNvmlInsufficientSize = 7;  // NVML_ERROR_INSUFFICIENT_SIZE
inline constexpr unsigned kNvmlUncorrectedErrors = 1;   // nvmlMemoryErrorType_t
inline constexpr unsigned kNvmlSinceDriverLoad = 0;     // nvmlEccCounterType_t: volatile

// X(what it returns, name, parameters) lists functions without which there is nothing to ask.
// clang-format off
#define ATTNLAB_NVML_FUNCTIONS(X) \
  X(NvmlReturn, nvmlInit_v2, ()) \
  X(const char*, nvmlErrorString, (NvmlReturn)) \
  X(NvmlReturn, nvmlDeviceGetHandleByPciBusId_v2, (const char*, NvmlDevice*))
// These are null where the library has no such function, as an older or a newer one may.
#define ATTNLAB_NVML_OPTIONAL_FUNCTIONS(X) \
  X(NvmlReturn, nvmlDeviceGetClockInfo, (NvmlDevice, unsigned, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetTemperature, (NvmlDevice, unsigned, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetPowerUsage, (NvmlDevice, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetFieldValues, (NvmlDevice, int, NvmlFieldValue*)) \
  X(NvmlReturn, nvmlDeviceGetTotalEnergyConsumption, (NvmlDevice, unsigned long long*)) \
  X(NvmlReturn, nvmlDeviceGetCurrentClocksEventReasons, (NvmlDevice, unsigned long long*)) \
  X(NvmlReturn, nvmlSystemGetDriverVersion, (char*, unsigned)) \
  X(NvmlReturn, nvmlDeviceGetMigMode, (NvmlDevice, unsigned*, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetComputeRunningProcesses_v3, (NvmlDevice, unsigned*, NvmlProcess*)) \
  X(NvmlReturn, nvmlDeviceGetUtilizationRates, (NvmlDevice, NvmlUtilization*)) \
  X(NvmlReturn, nvmlDeviceGetMaxClockInfo, (NvmlDevice, unsigned, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetApplicationsClock, (NvmlDevice, unsigned, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetDefaultApplicationsClock, (NvmlDevice, unsigned, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetPowerManagementDefaultLimit, (NvmlDevice, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetEnforcedPowerLimit, (NvmlDevice, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetEccMode, (NvmlDevice, unsigned*, unsigned*)) \
  X(NvmlReturn, nvmlDeviceGetTotalEccErrors, \
    (NvmlDevice, unsigned, unsigned, unsigned long long*))
// clang-format on

struct Nvml {
// NOLINTBEGIN(bugprone-macro-parentheses): types and names cannot be put in parentheses
#define ATTNLAB_DECLARE(result, function, parameters) result(*function) parameters = nullptr;
  ATTNLAB_NVML_FUNCTIONS(ATTNLAB_DECLARE)
  ATTNLAB_NVML_OPTIONAL_FUNCTIONS(ATTNLAB_DECLARE)
#undef ATTNLAB_DECLARE
  // NOLINTEND(bugprone-macro-parentheses)
};

// Opens the library and initialises it on the first call; it stays so as long as the process.
// Throws MissingLibrary, or std::runtime_error with NVML's words.
const Nvml& nvml();

// Returns a CUDA device's GPU, found by its place on the bus, since CUDA_VISIBLE_DEVICES renumbers
// devices and NVML does not know it; of a MIG instance the whole GPU. Throws as nvml() does.
NvmlDevice nvml_device(const Device& device);

// Returns what function(arguments..., &value) says; empty where there is no such function, or where
// this GPU, or this user, gets no answer.
template <class Value, class... Parameters, class... Arguments>
std::optional<Value> ask_nvml(NvmlReturn (*function)(Parameters...), Arguments... arguments) {
  Value value{};
  if (function == nullptr || function(arguments..., &value) != kNvmlSuccess) return std::nullopt;
  return value;
}

}  // namespace attnlab::cuda
