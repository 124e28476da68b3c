#include "harness/measure/possible_time.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/plan/accounting.h"
#include "harness/plan/case.h"
#include "harness/plan/gpus.h"
#include "harness/plan/peer_names.h"
#include "harness/plan/protocol.h"

namespace attnlab {
namespace {

struct Rates {
  int compute_capability;
  double f16, tf32, f32;  // FLOP a clock and multiprocessor
  double e4m3;            // 0: its tensor cores have none
};

// A rate is the data sheet's peak over SMs and boost clock (harness/plan/gpus.cpp names the
// sheets): a multiprocessor's tensor cores finish so many fused multiply-adds, each two FLOP. Where
// sheets of one capability differ, the larger rate counts.
constexpr Rates kRates[] = {
    {75, 1024, 0, 128, 0},        // T4
    {80, 2048, 1024, 128, 0},     // A100
    {86, 1024, 512, 256, 0},      // A10
    {89, 1024, 512, 256, 2048},   // L4
    {90, 4096, 2048, 256, 8192},  // H100, H200
};

}  // namespace

std::optional<double> flops_per_clock(int compute_capability, Dtype dtype, bool tf32) {
  const auto found = std::ranges::find(kRates, compute_capability, &Rates::compute_capability);
  if (found == std::end(kRates)) return std::nullopt;
  if (dtype == Dtype::e4m3) {
    return found->e4m3 > 0.0 ? std::optional(found->e4m3) : std::nullopt;
  }
  if (dtype != Dtype::f32) return found->f16;
  return tf32 ? std::max(found->tf32, found->f32) : found->f32;
}

double flops_per_clock_of_thread(const std::string& isa, Dtype dtype, bool is_peer) {
  constexpr double kUnits = 2.0;   // of a core, that multiply and add
  constexpr double kAmx = 2048.0;  // of 16-bit tiles
  if (is_peer && dtype != Dtype::f32) return kAmx;
  const double lanes = isa == "avx2" && !is_peer ? 8.0 : 16.0;  // of others at most as avx512
  return kUnits * lanes * 2.0;
}

namespace {

// Returns FLOP/s of the whole device at the highest clock; nothing where the chip is not known.
std::optional<double> highest_rate(const Record& record) {
  const Device& device = record.device;
  const Case& point = record.point;
  const Competitor& competitor = point.competitors.at(0);
  const Dtype dtype = point.problem.dtype;
  if (device.backend == Backend::cpu) {
    return flops_per_clock_of_thread(device.isa, dtype, is_peer(competitor.kernel)) *
           device.threads * kHighestProcessorClock;
  }
  const bool tf32 = products_of(point.problem, competitor.implementation, competitor.config) ==
                    reference::Products::tf32;
  const auto rate = flops_per_clock(device.compute_capability, dtype, tf32);
  if (!rate) return std::nullopt;
  return *rate * device.multiprocessors * device.max_clock_hz;
}

}  // namespace

std::string impossible_time(const Record& record) {
  if (!record.time || !record.flops) return "";
  const double seconds = record.time->min_s;
  const Flops& all = *record.flops;
  const bool on_gpu = record.device.backend == Backend::cuda;
  // Kernels on a processor leave out rows and keys of a tile that do not exist, which nevertheless
  // count as executed.
  const std::int64_t executed = all.executed.value_or(all.useful);
  const auto flops = static_cast<double>(on_gpu ? executed : std::min(executed, all.useful));
  if (const auto rate = highest_rate(record)) {
    const double floor = flops / *rate;
    if (!(seconds >= floor)) {
      return fmt::format(
          "a sample of {:.4g} us is impossible: {:.4g} FLOPs take {:.4g} us at the least on {}. "
          "Either the kernel did not run, or the clock is wrong",
          1e6 * seconds, flops, 1e6 * floor,
          on_gpu ? "this GPU"
                 : fmt::format("{} thread{}", record.device.threads,
                               record.device.threads == 1 ? "" : "s"));
    }
  }
  if (!on_gpu || record.protocol.cache == CacheState::hot || !record.compulsory_bytes) return "";
  const Gpu* const row = find_gpu(record.device.name);
  if (row == nullptr || !row->memory.bytes_per_s) return "";
  const double floor = static_cast<double>(*record.compulsory_bytes) / *row->memory.bytes_per_s;
  if (seconds >= floor) return "";
  return fmt::format(
      "a cold sample of {:.4g} us is impossible: {} bytes take {:.4g} us at the least on an {}. "
      "Either the inputs were in a cache, or the clock is wrong",
      1e6 * seconds, *record.compulsory_bytes, 1e6 * floor, row->name);
}

}  // namespace attnlab
