#include "harness/run/tensor_flops.h"

#include <fmt/format.h>

#include <cstdint>

#include "harness/plan/case.h"

namespace attnlab {
namespace {

constexpr double kTolerance = 0.01;
constexpr std::int64_t kLibraryTile = 256;  // the largest extent of cuBLAS's tiles

bool multiplies_on_tensor_cores(const Case& point) {
  if (point.problem.dtype != Dtype::f32) return true;
  const Competitor& competitor = point.competitors.at(0);
  return products_of(point.problem, competitor.implementation, competitor.config) ==
         reference::Products::tf32;
}

std::int64_t padded(std::int64_t extent) { return ceil_div(extent, kLibraryTile) * kLibraryTile; }

// Returns at most how many times the matrices' FLOPs whole tiles take. Every product of a pass has
// rows, keys and head_dim as its extents.
double most_padding(const Problem& problem) {
  const bool packed = problem.layout == Layout::packed;
  std::int64_t pairs = 0, padded_pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t rows = packed ? problem.queries(b) : problem.seqlen_q;
    const std::int64_t keys = packed ? problem.keys(b) : problem.seqlen_k;
    pairs += rows * keys;
    padded_pairs += padded(rows) * padded(keys);
  }
  return static_cast<double>(padded_pairs) / static_cast<double>(pairs) *
         static_cast<double>(padded(problem.head_dim)) / static_cast<double>(problem.head_dim);
}

}  // namespace

std::optional<double> tensor_flops_of_executed(const Record& record, const char* library) {
  const std::int64_t executed =
      record.flops && record.flops->executed ? *record.flops->executed : 0;
  if (executed <= 0 || !record.counted || !record.counted->valid) return std::nullopt;
  if (!multiplies_on_tensor_cores(record.point)) return std::nullopt;
  const HardwareCounts& counts = record.counted->a_launch;
  const double wgmma = counts.wgmma_flops.value_or(0.0);
  const bool is_all = counts.mma_sync_flops || (wgmma != 0.0 && library == nullptr);
  if (!is_all) return std::nullopt;
  return (wgmma + counts.mma_sync_flops.value_or(0.0)) / static_cast<double>(executed);
}

std::string wrong_tensor_flops(double share, const Problem& problem, const char* library) {
  const double most = (library == nullptr ? 1.0 : most_padding(problem)) * (1.0 + kTolerance);
  if (share >= 1.0 - kTolerance && share <= most) return "";
  return fmt::format(
      "tensor cores did {:.2f} % of the FLOPs that the schedule executes, and 99 to {:.0f} % are "
      "right: either a launch does not multiply what it should, or the schedule is wrong",
      100.0 * share, 100.0 * most);
}

}  // namespace attnlab
