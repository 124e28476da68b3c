// Says what a device's ceilings should be by its data sheet, and what they can be at the very most.
#pragma once

#include <optional>
#include <string>

#include "harness/measure/peaks.h"
#include "harness/plan/gpus.h"
#include "kernels/api/peaks.h"

namespace attnlab {

// Returns the row of gpus() that is this very product: by name, multiprocessors and memory (within
// 10 %); null for a part of a GPU (MIG) and for variants that have no row.
const Gpu* datasheet_of(const Device& device);

// Returns what the vendor says, per second: tensor cores, fp32 and HBM come from the row; shared
// memory and ex2 from the CUDA C++ Programming Guide's rates (32 banks of 4 bytes; 16 results a
// clock) at the device's highest clock. It is empty where there is no source.
std::optional<double> datasheet_rate(CeilingId id, const Device& device);

// Returns what no kernel can exceed: the chip's rate at its highest clock; for HBM the data
// sheet's, for the L2 what the L1 takes (128 bytes a multiprocessor and clock); nothing if unknown.
std::optional<double> highest_rate(CeilingId id, const Device& device);

// Returns why a measured ceiling cannot be true, or "": its rate is no positive number, or lies
// more than 2 % above highest_rate().
std::string impossible_ceiling(const Ceiling& ceiling, const Device& device);

// Returns whether all that was measured can be true.
bool is_possible(const Peaks& peaks, const Device& device);

}  // namespace attnlab
