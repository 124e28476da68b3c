// Fakes a device that says what a test tells it to.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/telemetry.h"

namespace attnlab::fake {

struct Telemetry final : attnlab::Telemetry {
  std::string why_not() override { return reason; }
  TelemetryReading read() override {
    if (on_read) on_read();
    TelemetryReading reading{.power_w = 300.0, .temperature_c = 40.0};
    if (!clocks_hz.empty()) reading.multiprocessor_clock_hz = clocks_hz[reads % clocks_hz.size()];
    ++reads;
    return reading;
  }
  std::optional<double> energy_j() override { return energy ? energy() : std::optional<double>(); }

  std::string reason;
  std::vector<double> clocks_hz;  // one reading after the other, over and over
  std::function<void()> on_read;
  std::function<std::optional<double>()> energy;
  std::size_t reads = 0;
};

}  // namespace attnlab::fake
