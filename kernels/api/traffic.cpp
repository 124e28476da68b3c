#include "kernels/api/traffic.h"

namespace attnlab {

const char* to_string(Operand operand) {
  static constexpr const char* kNames[kOperands] = {
      "q", "k", "v", "o", "lse", "dout", "dq", "dk", "dv", "delta", "s", "p", "dp", "ds", "m", "l"};
  return kNames[static_cast<std::size_t>(operand)];
}

std::int64_t Traffic::read_bytes() const {
  std::int64_t total = 0;
  for (const OperandTraffic& operand : operands) total += operand.read_bytes;
  return total;
}

std::int64_t Traffic::write_bytes() const {
  std::int64_t total = 0;
  for (const OperandTraffic& operand : operands) total += operand.write_bytes;
  return total;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  for (std::size_t i = 0; i < kOperands; ++i) {
    operands[i].read_bytes += other.operands[i].read_bytes;
    operands[i].write_bytes += other.operands[i].write_bytes;
  }
  tiles.empty += other.tiles.empty;
  tiles.partial += other.tiles.partial;
  tiles.full += other.tiles.full;
  executed_flops += other.executed_flops;
  return *this;
}

Traffic& Traffic::operator*=(std::int64_t times) {
  for (OperandTraffic& operand : operands) {
    operand.read_bytes *= times;
    operand.write_bytes *= times;
  }
  tiles.empty *= times;
  tiles.partial *= times;
  tiles.full *= times;
  executed_flops *= times;
  return *this;
}

}  // namespace attnlab
