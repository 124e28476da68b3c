// What a device's ceilings should be: by its data sheet, and at the very most.
#pragma once

#include <optional>
#include <string>

#include "harness/measure/peaks.h"
#include "harness/plan/gpus.h"
#include "kernels/api/peaks.h"

namespace attnlab {

// The row of gpus() that is this very product: by name, multiprocessors and memory (within 10 %).
// Null for a part of a GPU (MIG) and for variants that have no row.
const Gpu* datasheet_of(const Device& device);

// What the vendor says, per second: tensor cores, fp32 and HBM of the row; shared memory and ex2 of
// the CUDA C++ Programming Guide's rates (32 banks of 4 bytes; 16 results a clock) at the device's
// highest clock. Empty where there is no source.
std::optional<double> datasheet_rate(CeilingId id, const Device& device);

// What no kernel can exceed: the chip's rate at its highest clock; of HBM the data sheet's; of the
// L2 what the L1 takes (128 bytes a multiprocessor and clock). Empty where it is not known.
std::optional<double> highest_rate(CeilingId id, const Device& device);

// Why a measured ceiling cannot be true, or empty: a rate that is no positive number, or more than
// 2 % above highest_rate().
std::string impossible_ceiling(const Ceiling& ceiling, const Device& device);

// Whether all that was measured can be true.
bool is_possible(const Peaks& peaks, const Device& device);

}  // namespace attnlab
