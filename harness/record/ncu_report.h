// Reads a report of Nsight Compute: its raw page as CSV (ncu --import FILE --page raw --csv
// --print-units base), a row a launch of a kernel.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/counters.h"

namespace attnlab {

// Holds what ncu said of one launch.
struct NcuLaunch {
  std::string kernel;  // demangled
  // Names attnlab's NVTX ranges that were open, outermost first; none without ncu's --nvtx.
  std::vector<std::string> ranges;
  std::array<std::uint32_t, 3> grid = {}, block = {};
  int compute_capability = 0;  // 90 is 9.0
  int registers = 0;           // a thread
  double occupancy_percent = 0.0;
  // Says how many warps each reason held, of an issue: "long_scoreboard", ...
  std::map<std::string, double> stalls;
  HardwareCounts counts;
};

// Lists the metrics that read_ncu_report() wants by name; its stalls come from ncu's section
// WarpStateStats, and chips other than Hopper have no wgmma.
std::vector<std::string> ncu_metrics(Dtype dtype, bool has_wgmma);

// Reads the launches, in their order; the arithmetic of tensor cores is that of `dtype`. Throws
// UsageError, led by `where`, the file, for what is no such page, or half of one; for a metric that
// is missing, has no number ("n/a") or another unit than its own. FLOPs may be missing: not every
// chip counts them.
std::vector<NcuLaunch> read_ncu_report(const std::string& text, Dtype dtype,
                                       const std::string& where);

}  // namespace attnlab
