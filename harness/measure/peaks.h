// Keeps the measured ceilings of a device on disk: one JSON file for each device name and driver.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/peaks.h"

namespace attnlab {

inline constexpr const char* kPeaksSchema = "attnlab.peaks/1";

struct Peaks {
  std::string device;  // its name
  std::string driver;
  int multiprocessors = 0;
  double max_clock_hz = 0.0;
  std::string timestamp;          // when they were measured: ISO 8601, UTC
  std::string commit;             // of the build that did
  std::vector<Ceiling> ceilings;  // each id once
};

// Returns the ceiling, or null where it was not measured.
const Ceiling* find_ceiling(const Peaks& peaks, CeilingId id);

nlohmann::ordered_json to_json(const Peaks& peaks);

// Reads strictly: every key must be there and no other, every rate must be a positive number.
// Throws UsageError, led by `where`, with the remedy.
Peaks parse_peaks(const std::string& text, const std::string& where);

// Returns cache_folder()/peaks/NAME-DRIVER.json.
std::filesystem::path peaks_file(const Device& device);

// Returns what the device's file holds; nothing where there is no file. Throws UsageError for a
// file that cannot be read, or of another device, driver or number of multiprocessors.
std::optional<Peaks> load_peaks(const Device& device);

// Saves in one step: others see the old file or the new one. Makes the folder. Throws UsageError.
void save_peaks(const Peaks& peaks, const std::filesystem::path& file);

// Holds what a run knows of its device's ceilings.
struct KnownPeaks {
  std::optional<Peaks> peaks;
  std::string reason;  // why there are none, and the remedy
};

// Never measures and never throws: a file that is wrong becomes the reason.
KnownPeaks known_peaks(const Device& device);

}  // namespace attnlab
