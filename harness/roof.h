// A measured time against the measured ceilings of its device: the roofline of one point.
#pragma once

#include <optional>
#include <string>

#include "harness/gpus.h"
#include "harness/peaks.h"
#include "kernels/api/problem.h"

namespace attnlab {

struct Record;

// What one launch did.
struct RoofWork {
  double flops = 0.0;  // useful ones
  double bytes = 0.0;  // compulsory ones
  double seconds = 0.0;
  std::optional<double> dram_bytes;  // counted ones
};

// The two roofs that it stands under, settled.
struct RoofPeaks {
  double flops_per_s = 0.0;
  double bytes_per_s = 0.0;
};

struct Roof {
  std::optional<double> intensity;       // FLOP a byte
  std::optional<double> dram_intensity;  // the same with counted bytes
  // Which roof binds: the one under which the work takes longer.
  std::optional<Limit> binds;
  // May pass 100: the peaks are measured, not promised, and of a hot point a cache serves the
  // bytes.
  std::optional<double> percent_of_compute_peak, percent_of_memory_peak;
  std::optional<double> percent_of_roof;  // the larger of them: that of what binds
  // Whose peaks, where there are some.
  struct Source {
    std::string device, driver, timestamp;
    CeilingId compute = CeilingId::tensor_f16, memory = CeilingId::hbm_read;
    RoofPeaks peaks;
  };
  std::optional<Source> source;
  std::string reason;  // why there are none
};

// Everything but source and reason. Bytes or seconds that are not positive give no number.
Roof make_roof(const RoofWork& work, const std::optional<RoofPeaks>& peaks);

// Of 16-bit products the tensor rate of the type, of fp32 ones the multiply-adds, of TF32 ones the
// tensor rate of TF32; and the faster of reading HBM and copying there. Empty where the device's
// peaks lack one: `reason` then says which.
std::optional<Roof::Source> choose_peaks(const Peaks& peaks, Dtype dtype, bool tf32,
                                         std::string& reason);

// Of a record with a time; nothing for others.
std::optional<Roof> roof_of(const Record& record, const KnownPeaks& known);

}  // namespace attnlab
