// Says what a machine lacks for measuring on its devices, and what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace attnlab {

enum class Health : std::uint8_t { ok, degraded, missing };
const char* to_string(Health health);

struct Diagnosis {
  std::string what;  // "CUPTI"
  Health health = Health::ok;
  std::string finding;     // "13.0, /usr/local/cuda/lib64/libcupti.so.13"
  std::string remedy;      // of what is not ok, in words
  bool essential = false;  // nothing can be measured on this backend without it
};

// Diagnoses everything that the CUDA side opens or asks: driver, toolkit, NVRTC, cuBLAS, CUPTI and
// its permission, NVML, and how each GPU is set up. Never throws; without a GPU it says so.
std::vector<Diagnosis> diagnose_cuda();

// Returns whether this machine has a GPU that CUDA should show: the driver's module names one, and
// nobody hid all of them by CUDA_VISIBLE_DEVICES.
bool expects_gpu();

// Returns this processor's sets that CPU kernels can be told to use (Device::isa), best first.
std::vector<std::string> instruction_sets();

}  // namespace attnlab
