#include "harness/measure/ceiling_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "harness/measure/possible_time.h"

namespace attnlab {
namespace {

// These hold per multiprocessor and clock, for all compute capabilities from 7.5 to 9.0.
constexpr double kSharedBytes = 128, kEx2s = 16, kL1Bytes = 128;

std::optional<double> times_clock(const std::optional<double>& rate, const Device& device) {
  if (!rate) return std::nullopt;
  const double all = *rate * device.multiprocessors * device.max_clock_hz;
  return all > 0.0 ? std::optional(all) : std::nullopt;  // not every device tells its clock
}

std::optional<double> tensor_rate(const Device& device, Dtype dtype, bool tf32) {
  return times_clock(flops_per_clock(device.compute_capability, dtype, tf32), device);
}

}  // namespace

const Gpu* datasheet_of(const Device& device) {
  const Gpu* const row = find_gpu(device.name);
  if (row == nullptr || row->chip.sms != device.multiprocessors || !row->memory.bytes) {
    return nullptr;
  }
  const double ratio =
      static_cast<double>(device.memory_bytes) / static_cast<double>(*row->memory.bytes);
  return std::abs(ratio - 1.0) <= 0.1 ? row : nullptr;
}

std::optional<double> datasheet_rate(CeilingId id, const Device& device) {
  const Gpu* const row = datasheet_of(device);
  switch (id) {
    case CeilingId::tensor_f16: return row ? row->flops_per_s.f16 : std::nullopt;
    case CeilingId::tensor_bf16: return row ? row->flops_per_s.bf16 : std::nullopt;
    case CeilingId::fma_f32: return row ? row->flops_per_s.f32 : std::nullopt;
    case CeilingId::hbm_copy:
    case CeilingId::hbm_read: return row ? row->memory.bytes_per_s : std::nullopt;
    case CeilingId::shared_read: return times_clock(kSharedBytes, device);
    case CeilingId::ex2: return times_clock(kEx2s, device);
    case CeilingId::tensor_tf32:
    case CeilingId::l2_read: break;
  }
  return std::nullopt;
}

std::optional<double> highest_rate(CeilingId id, const Device& device) {
  switch (id) {
    case CeilingId::tensor_f16: return tensor_rate(device, Dtype::f16, false);
    case CeilingId::tensor_bf16: return tensor_rate(device, Dtype::bf16, false);
    case CeilingId::tensor_tf32: return tensor_rate(device, Dtype::f32, true);
    case CeilingId::fma_f32: return tensor_rate(device, Dtype::f32, false);
    case CeilingId::l2_read: return times_clock(kL1Bytes, device);
    case CeilingId::hbm_copy:
    case CeilingId::hbm_read:
    case CeilingId::shared_read:
    case CeilingId::ex2: break;
  }
  return datasheet_rate(id, device);
}

std::string impossible_ceiling(const Ceiling& ceiling, const Device& device) {
  if (!ceiling.reason.empty()) return "";
  constexpr double kTolerance = 1.02;
  const std::optional<double> highest = highest_rate(ceiling.id, device);
  for (const auto& [name, rate] :
       {std::pair{"burst", ceiling.burst}, std::pair{"settled", ceiling.settled}}) {
    for (const double value : {rate.per_s, rate.clock_hz}) {
      if (!(value > 0.0 && std::isfinite(value))) {
        return fmt::format(
            "{} {} measured {}, which is no rate: the timer is wrong, look at "
            "attnlab verify --backend cuda",
            to_string(ceiling.id), name, value);
      }
    }
    if (highest && !(rate.per_s <= kTolerance * *highest)) {
      return fmt::format(
          "{} {} measured {:.4g} {}, and this chip cannot do more than {:.4g}: the clock is wrong, "
          "or the work was not done",
          to_string(ceiling.id), name, rate.per_s, unit_of(ceiling.id), *highest);
    }
  }
  return "";
}

bool is_possible(const Peaks& peaks, const Device& device) {
  return std::ranges::all_of(peaks.ceilings, [&](const Ceiling& ceiling) {
    return impossible_ceiling(ceiling, device).empty();
  });
}

}  // namespace attnlab
