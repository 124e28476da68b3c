#include "kernels/cpu/telemetry.h"

namespace attnlab::cpu {
namespace {

class NoTelemetry final : public Telemetry {
 public:
  std::string why_not() override {
    return "no clocks, power or energy are read on the CPU backend; use a GPU (--backend cuda)";
  }
  TelemetryReading read() override { return {}; }
  std::optional<double> energy_j() override { return std::nullopt; }
};

}  // namespace

Telemetry& telemetry() {
  static NoTelemetry none;
  return none;
}

}  // namespace attnlab::cpu
