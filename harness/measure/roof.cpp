#include "harness/measure/roof.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/plan/accounting.h"
#include "harness/plan/case.h"
#include "harness/record/record.h"

namespace attnlab {
namespace {

std::optional<double> quotient(double numerator, double denominator) {
  if (!(denominator > 0.0)) return std::nullopt;
  return numerator / denominator;
}

}  // namespace

std::optional<CeilingId> compute_ceiling(Dtype dtype, bool tf32) {
  switch (dtype) {
    case Dtype::f16: return CeilingId::tensor_f16;
    case Dtype::bf16: return CeilingId::tensor_bf16;
    case Dtype::e4m3: return std::nullopt;
    case Dtype::f32: break;
  }
  return tf32 ? CeilingId::tensor_tf32 : CeilingId::fma_f32;
}

Roof make_roof(const RoofWork& work, const std::optional<RoofPeaks>& peaks) {
  Roof roof{.intensity = quotient(work.flops, work.bytes)};
  if (work.dram_bytes) roof.dram_intensity = quotient(work.flops, *work.dram_bytes);
  if (!peaks || !(work.seconds > 0.0)) return roof;
  const double compute_s = work.flops / peaks->flops_per_s;
  const double memory_s = work.bytes / peaks->bytes_per_s;
  roof.binds = compute_s >= memory_s ? Limit::compute : Limit::memory;
  roof.percent_of_compute_peak = 100.0 * compute_s / work.seconds;
  roof.percent_of_memory_peak = 100.0 * memory_s / work.seconds;
  roof.percent_of_roof = std::max(*roof.percent_of_compute_peak, *roof.percent_of_memory_peak);
  return roof;
}

std::optional<Roof::Source> choose_peaks(const Peaks& peaks, Dtype dtype, bool tf32,
                                         std::string& reason) {
  const std::optional<CeilingId> id = compute_ceiling(dtype, tf32);
  if (!id) {
    reason = fmt::format("attnlab peak measures no products of {}", to_string(dtype));
    return std::nullopt;
  }
  const Ceiling* const compute = find_ceiling(peaks, *id);
  const Ceiling* memory = nullptr;
  for (const CeilingId candidate : {CeilingId::hbm_read, CeilingId::hbm_copy}) {
    const Ceiling* const ceiling = find_ceiling(peaks, candidate);
    if (ceiling == nullptr) continue;
    if (memory == nullptr || ceiling->settled.per_s > memory->settled.per_s) memory = ceiling;
  }
  if (compute == nullptr || memory == nullptr) {
    reason = fmt::format("the peaks of this device lack {}: attnlab peak says why",
                         compute == nullptr ? to_string(*id) : "the rate of HBM");
    return std::nullopt;
  }
  return Roof::Source{
      .device = peaks.device,
      .driver = peaks.driver,
      .timestamp = peaks.timestamp,
      .compute = *id,
      .memory = memory->id,
      .peaks = {.flops_per_s = compute->settled.per_s, .bytes_per_s = memory->settled.per_s}};
}

std::optional<Roof> roof_of(const Record& record, const KnownPeaks& known) {
  if (!record.time || !record.flops) return std::nullopt;
  const Problem& problem = record.point.problem;
  const Competitor& competitor = record.point.competitors.at(0);
  const bool tf32 = products_of(problem, competitor.implementation, competitor.config) ==
                    reference::Products::tf32;
  std::string reason = known.reason;
  std::optional<Roof::Source> source;
  if (known.peaks) source = choose_peaks(*known.peaks, problem.dtype, tf32, reason);
  RoofWork work{.flops = static_cast<double>(record.flops->useful),
                .bytes = static_cast<double>(compulsory_bytes(problem)),
                .seconds = record.time->median_s};
  if (record.counted && record.counted->valid) {
    const HardwareCounts& counts = record.counted->a_launch;
    if (counts.dram_read_bytes && counts.dram_write_bytes) {
      work.dram_bytes = *counts.dram_read_bytes + *counts.dram_write_bytes;
    }
  }
  Roof roof = make_roof(work, source ? std::optional(source->peaks) : std::nullopt);
  roof.source = std::move(source);
  roof.reason = std::move(reason);
  return roof;
}

}  // namespace attnlab
