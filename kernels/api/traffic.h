// Counts bytes between a kernel and HBM (on the CPU: main memory), by operand, as a schedule asks
// for them. `requested` says what the schedule loads and stores; caches may serve part of it, so
// measured DRAM bytes are another quantity and never share a column with these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace attnlab {

enum class Operand : std::uint8_t { q, k, v, o, lse, dout, dq, dk, dv, delta, s, p, dp, ds, m, l };
inline constexpr std::size_t kOperands = 16;
const char* to_string(Operand operand);

struct OperandTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t write_bytes = 0;
  bool operator==(const OperandTraffic&) const = default;
};

// TileCounts counts tiles of the attention matrix by class (see shared/mask.h), summed over the
// passes that run. Empty ones are those skipped.
struct TileCounts {
  std::int64_t empty = 0;
  std::int64_t partial = 0;
  std::int64_t full = 0;
  bool operator==(const TileCounts&) const = default;
};

struct Traffic {
  std::array<OperandTraffic, kOperands> operands{};
  TileCounts tiles;
  std::int64_t executed_flops = 0;  // of the matrix products, whole tiles

  OperandTraffic& operator[](Operand operand) {
    return operands[static_cast<std::size_t>(operand)];
  }
  const OperandTraffic& operator[](Operand operand) const {
    return operands[static_cast<std::size_t>(operand)];
  }
  std::int64_t read_bytes() const;
  std::int64_t write_bytes() const;
  Traffic& operator+=(const Traffic& other);
  // Becomes the traffic of `times` identical slices.
  Traffic& operator*=(std::int64_t times);
  bool operator==(const Traffic&) const = default;
};

}  // namespace attnlab
