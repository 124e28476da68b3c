// Reads what a device says of its own state while it works: clocks, power, temperature, and what
// holds its clock down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace attnlab {

// A field is empty where the device does not say.
struct TelemetryReading {
  std::optional<double> multiprocessor_clock_hz, memory_clock_hz;
  std::optional<double> power_w, temperature_c;
  std::vector<std::string> throttle_reasons;  // "power cap", "thermal slowdown", ...; empty: none
};

class Telemetry {
 public:
  Telemetry() = default;
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;
  virtual ~Telemetry() = default;

  // Returns why it says nothing, with the remedy, "" if it does.
  virtual std::string why_not() = 0;
  // Takes well under a millisecond. Reads nothing where why_not(). The clock comes first: it is the
  // one that falls soon after a load ends.
  virtual TelemetryReading read() = 0;
  // Returns joules since some time before the process began, in steps of about 0.1 s; it is apart
  // because asking may take milliseconds. It is empty where the device does not count them.
  virtual std::optional<double> energy_j() = 0;
  // Returns the limit that is enforced, nothing where the device does not say.
  virtual std::optional<double> power_limit_w() { return std::nullopt; }
};

// Returns that of one of available_devices(), made on first use; it lives as long as the process.
Telemetry& telemetry_of(const Device& device);

}  // namespace attnlab
