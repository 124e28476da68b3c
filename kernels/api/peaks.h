// Measures the ceilings of a device: what its pipes and its memories reach, cool and under load.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/device.h"

namespace attnlab {

enum class CeilingId : std::uint8_t {
  tensor_f16,   // products with fp32 sums, by a library
  tensor_bf16,  //
  tensor_tf32,  // of fp32 factors, rounded
  fma_f32,      // ordinary multiply-adds, two FLOP each
  hbm_copy,     // bytes read and bytes written
  hbm_read,
  l2_read,
  shared_read,
  ex2,  // 2^x, of which a softmax takes one a score
};
inline constexpr std::size_t kCeilings = 9;
std::array<CeilingId, kCeilings> ceiling_ids();

const char* to_string(CeilingId id);
std::optional<CeilingId> parse_ceiling_id(std::string_view text);
const char* unit_of(CeilingId id);  // "FLOP/s", "B/s", "op/s"

struct CeilingRate {
  double per_s = 0.0;     // of the whole device
  double clock_hz = 0.0;  // of its multiprocessors, read right behind the load
};

struct Ceiling {
  CeilingId id = CeilingId::tensor_f16;
  CeilingRate burst;    // of the first 20 ms after a second of rest
  CeilingRate settled;  // median, after 1.5 s of the same load
  std::string how;      // one sentence: method and sizes
  std::string reason;   // why it was not measured; empty: it was
};

// Returns what one multiprocessor does in a cycle.
double per_multiprocessor_and_clock(const CeilingRate& rate, const Device& device);

// Takes about 3 s a ceiling, calls `begins` as each starts, and returns all of ceiling_ids() in
// their order; one that cannot be measured has its reason. Throws std::runtime_error for a device
// that has no such ceilings (a CPU) or cannot be used, DeviceLost.
std::vector<Ceiling> measure_peaks(const Device& device,
                                   const std::function<void(CeilingId)>& begins);

}  // namespace attnlab
