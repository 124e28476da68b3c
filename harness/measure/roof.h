// Compares a measured time with the measured ceilings of its device: the roofline of one point.
#pragma once

#include <optional>
#include <string>

#include "harness/measure/peaks.h"
#include "harness/record/readings.h"
#include "harness/record/record.h"
#include "kernels/api/problem.h"

namespace attnlab {

// Holds what one launch did.
struct RoofWork {
  double flops = 0.0;  // useful ones
  double bytes = 0.0;  // compulsory ones
  double seconds = 0.0;
  std::optional<double> dram_bytes;  // counted ones
};

// Fills all but source and reason. Bytes or seconds that are not positive give no number.
Roof make_roof(const RoofWork& work, const std::optional<RoofPeaks>& peaks);

// Returns the ceiling of such products: that of tensor cores, or of multiply-adds for f32 without
// TF32; none for e4m3, in which no peak is measured.
std::optional<CeilingId> compute_ceiling(Dtype dtype, bool tf32);

// Chooses the tensor rate of the type for 16-bit products, the multiply-adds for fp32 ones, the
// tensor rate of TF32 for TF32 ones; and the faster of reading HBM and copying there. It is empty
// where the device's peaks lack one, as they lack products of e4m3: `reason` then says which.
std::optional<Roof::Source> choose_peaks(const Peaks& peaks, Dtype dtype, bool tf32,
                                         std::string& reason);

// Returns the roof of a record that has a time, nothing for others.
std::optional<Roof> roof_of(const Record& record, const KnownPeaks& known);

}  // namespace attnlab
