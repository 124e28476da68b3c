// Finds what this machine lacks for measuring on its GPUs (kernels/api/diagnosis.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/diagnosis.h"

namespace attnlab::cuda {

// Diagnoses the libraries, then each GPU. Never throws.
std::vector<Diagnosis> diagnose();

// Diagnoses driver, compiler with its worker and its cache, cuBLAS, CUPTI and who may use it, NVML,
// and who else listens or shares.
std::vector<Diagnosis> diagnose_libraries();

// Says if this process may read counters, given /proc/driver/nvidia/params and /proc/self/status.
Diagnosis judge_permission(const std::string& params, const std::string& status);

// Says how a GPU is set up and who is on it; what NVML does not say or it does not have is empty.
struct GpuSettings {
  struct Process {
    unsigned pid = 0;
    std::optional<std::uint64_t> memory_bytes;
  };
  std::optional<bool> mig;
  std::optional<std::vector<Process>> others;  // that compute on it
  std::optional<unsigned> busy_percent;
  std::optional<double> max_clock_hz, applications_clock_hz, default_applications_clock_hz;
  std::optional<double> power_limit_w, default_power_limit_w;
  std::optional<bool> ecc;
  std::optional<std::uint64_t> uncorrected_errors;  // since the driver was loaded
};

// Reads a GPU's settings before this process uses it. Throws as nvml() does.
GpuSettings read_settings(const Device& device);

// `gpu` leads the names of the lines: "GPU 0".
std::vector<Diagnosis> judge_settings(const GpuSettings& settings, const std::string& gpu);

}  // namespace attnlab::cuda
