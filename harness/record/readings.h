// These structs hold what instruments said of a point: clocks and power around its samples, energy,
// its roofline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan/gpus.h"
#include "kernels/api/peaks.h"
#include "kernels/api/telemetry.h"

namespace attnlab {

// Holds successive samples of one competitor; samples of others may lie in between.
struct Block {
  int first_sample = 0;  // from 0
  int samples = 0;
  TelemetryReading reading;  // directly after its last sample (BlockWatch says when not)
  bool marked = false;       // at another clock than most: judge_blocks()
};

// This is what the device said while one competitor was sampled.
struct BlockTelemetry {
  std::vector<Block> blocks;
  // These sum up the blocks' clocks; they are empty where the device said none.
  std::optional<double> median_clock_hz, mean_clock_hz;
  int marked_blocks = 0;
  // It is true if at most a quarter of the blocks is marked, turns_agree() and the GPU was at work
  // in kLeastAtWork of a turn (measure/blocks.h).
  std::optional<bool> settled;
  std::optional<double> cycles;  // median time * mean clock
  std::string reason;            // why something is empty
};

// Holds what launches one after the other used. It contains the idle power: nothing is subtracted.
struct EnergyUse {
  double seconds = 0.0;   // between two steps of the counter
  double launches = 0.0;  // in these seconds, with the parts of launches at both ends
  double joules = 0.0;
  double joules_per_call = 0.0;
  std::optional<double> picojoules_per_flop;  // of useful ones; empty: there are none
  double mean_power_w = 0.0;
};

struct EnergyRecord {
  std::optional<EnergyUse> use;
  std::string reason;  // why it is empty
};

// Holds the two roofs of a point, as measured with settled clocks.
struct RoofPeaks {
  double flops_per_s = 0.0;
  double bytes_per_s = 0.0;
};

// A roof compares a measured time with the measured ceilings of its device.
struct Roof {
  std::optional<double> intensity;       // FLOP a byte
  std::optional<double> dram_intensity;  // the same with counted bytes
  // Says which roof binds: the one under which the work takes longer.
  std::optional<Limit> binds;
  // These may pass 100: the peaks are measured, not promised, and a cache serves the bytes of a hot
  // point.
  std::optional<double> percent_of_compute_peak, percent_of_memory_peak;
  std::optional<double> percent_of_roof;  // the larger of them: that of what binds
  // Says whose peaks were taken, where there are some.
  struct Source {
    std::string device, driver, timestamp;
    CeilingId compute = CeilingId::tensor_f16, memory = CeilingId::hbm_read;
    RoofPeaks peaks;
  };
  std::optional<Source> source;
  std::string reason;  // why there are none
};

}  // namespace attnlab
