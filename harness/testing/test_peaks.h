// Defines peaks that tests share.
#pragma once

#include "harness/measure/peaks.h"

namespace attnlab {

inline Device h200() {
  return {.backend = Backend::cuda,
          .name = "NVIDIA H200",
          .memory_bytes = 150'000'000'000,
          .compute_capability = 90,
          .multiprocessors = 132,
          .shared_memory_per_block_bytes = 227 << 10,
          .l2_bytes = 60 << 20,
          .max_clock_hz = 1.98e9,
          .driver = "580.159.04"};
}

// Makes all ceilings of the h200(), with rates of the usual size; `how` says "by SOMETHING".
inline Peaks h200_peaks() {
  const auto make = [](CeilingId id, double burst, double settled) {
    return Ceiling{.id = id,
                   .burst = {.per_s = burst, .clock_hz = 1.98e9},
                   .settled = {.per_s = settled, .clock_hz = 1.5e9},
                   .how = "by a test"};
  };
  return {
      .device = h200().name,
      .driver = h200().driver,
      .multiprocessors = h200().multiprocessors,
      .max_clock_hz = h200().max_clock_hz,
      .timestamp = "2025-01-01T00:00:00Z",
      .commit = "0123456789ab",
      .ceilings = {
          make(CeilingId::tensor_f16, 800e12, 640e12), make(CeilingId::tensor_bf16, 820e12, 660e12),
          make(CeilingId::tensor_tf32, 400e12, 320e12), make(CeilingId::fma_f32, 60e12, 50e12),
          make(CeilingId::hbm_copy, 4.0e12, 3.9e12), make(CeilingId::hbm_read, 4.5e12, 4.0e12),
          make(CeilingId::l2_read, 9e12, 8e12),
          make(CeilingId::shared_read, 33e12, 132 * 1.5e9 * 120),
          make(CeilingId::ex2, 4e12, 132 * 1.5e9 * 15)}};
}

}  // namespace attnlab
