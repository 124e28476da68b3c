// Counts a stretch of work: CUPTI's range profiler with user ranges and user replay.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cupti.h"

namespace attnlab::cuda {

// MetricNames are counted together. They are CUPTI's, with rollup: "dram__bytes_read.sum".
using MetricNames = std::vector<std::string>;

class RangeProfiler {
 public:
  // Profiles the current context, which must be of `device`. Throws MissingLibrary, or CuptiError
  // where counting is not allowed or the chip is not known.
  explicit RangeProfiler(CUdevice device);
  ~RangeProfiler();
  RangeProfiler(const RangeProfiler&) = delete;
  RangeProfiler& operator=(const RangeProfiler&) = delete;

  const std::string& chip() const { return chip_; }  // "GH100"
  bool has(const std::string& metric) const;

  // Returns one value a metric, of everything that `work` did on the device, for which it must wait
  // itself. Once a pass, of which CUPTI makes as many as the metrics need, calls `before` and then
  // `work`, which alone is counted. What could not be counted is NaN. It takes 25 ms a pass on an
  // H200, and 150 ms more whenever counting is switched on anew: for other metrics than the last
  // time, and after kMostPasses. Throws CuptiError, and what the two throw.
  std::vector<double> measure(const MetricNames& metrics, const std::function<void()>& before,
                              const std::function<void()>& work);

 private:
  class MetricSet;
  // Returns the set switched on for these metrics, with passes left for all of them.
  MetricSet& activate(const MetricNames& metrics);

  // A profiler that has made 8 passes makes every launch 0.15 us longer, until it is switched off
  // (a fortieth of a launch of 18 us; seen on an H200 with CUPTI 13.0.1, not after 6).
  static constexpr int kMostPasses = 6;

  std::string chip_;
  std::vector<std::uint8_t> availability_;
  CUpti_RangeProfiler_Object* profiler_ = nullptr;
  MetricSet* active_ = nullptr;
  int passes_ = 0;                    // since it was switched on
  std::unique_ptr<MetricSet> names_;  // of no metric: what is there to choose from
  std::map<MetricNames, std::unique_ptr<MetricSet>> sets_;
};

// Returns the number of passes of metrics on a chip, of which none need be there: "GH100". Throws
// MissingLibrary, or CuptiError where the chip lacks one.
int passes_on_chip(const std::string& chip, const MetricNames& metrics);

}  // namespace attnlab::cuda
