#include "harness/measure/peaks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/strict_json.h"
#include "harness/base/text_file.h"
#include "harness/measure/device_files.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRemedy = "remove it, or measure again with attnlab peak --again";

// Reads one file: knows where it is, and says what may be wrong with it.
class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

  Peaks read(const std::string& text) const {
    Json json;
    try {
      constexpr int kDeepest = 5;
      json = parse_strict_json(text, kDeepest, where_);
    } catch (const nlohmann::json::exception& error) {
      fail(fmt::format("is not JSON: {}", error.what()));
    }
    if (!json.is_object() || json.value("schema", Json()) != kPeaksSchema) {
      fail(fmt::format("is not of the schema {}", kPeaksSchema));
    }
    expect_keys(json, "the file",
                {"schema", "device", "driver", "multiprocessors", "max_clock_hz", "timestamp",
                 "commit", "ceilings"});
    Peaks peaks{.device = text_of(json, "device"),
                .driver = text_of(json, "driver"),
                .multiprocessors = count_of(json, "multiprocessors"),
                .max_clock_hz = positive(json, "max_clock_hz"),
                .timestamp = text_of(json, "timestamp"),
                .commit = text_of(json, "commit")};
    if (!json["ceilings"].is_array()) fail("ceilings: is no array");
    for (const Json& entry : json["ceilings"]) {
      const Ceiling ceiling = read_ceiling(entry);
      const bool is_new = std::ranges::none_of(
          peaks.ceilings, [&](const Ceiling& other) { return other.id == ceiling.id; });
      if (!is_new) fail(fmt::format("ceiling '{}' is given twice", to_string(ceiling.id)));
      peaks.ceilings.push_back(ceiling);
    }
    return peaks;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw UsageError(fmt::format("{}: {}; {}", where_, why, kRemedy));
  }

 private:
  Ceiling read_ceiling(const Json& json) const {
    if (!json.is_object()) fail("a ceiling is no object");
    expect_keys(json, "a ceiling", {"id", "unit", "burst", "settled", "how", "reason"});
    const std::optional<CeilingId> id = parse_ceiling_id(text_of(json, "id"));
    if (!id) fail(fmt::format("there is no ceiling '{}'", text_of(json, "id")));
    if (text_of(json, "unit") != unit_of(*id)) {
      fail(fmt::format("{}: its unit is {}", to_string(*id), unit_of(*id)));
    }
    Ceiling ceiling{.id = *id, .how = text_of(json, "how"), .reason = text_of(json, "reason")};
    if (ceiling.reason.empty()) {
      ceiling.burst = read_rate(json["burst"]);
      ceiling.settled = read_rate(json["settled"]);
    } else if (!json["burst"].is_null() || !json["settled"].is_null()) {
      fail(fmt::format("{}: has rates and a reason why it has none", to_string(*id)));
    }
    return ceiling;
  }

  CeilingRate read_rate(const Json& json) const {
    if (!json.is_object()) fail("a rate is no object");
    expect_keys(json, "a rate", {"per_s", "clock_hz"});
    return {.per_s = positive(json, "per_s"), .clock_hz = positive(json, "clock_hz")};
  }

  void expect_keys(const Json& json, const char* what, const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      if (!json.contains(key)) fail(fmt::format("{} lacks '{}'", what, key));
    }
    for (const auto& [key, value] : json.items()) {
      if (std::ranges::find(keys, key) == keys.end()) {
        fail(fmt::format("{} has a key '{}' that is not known", what, key));
      }
    }
  }

  std::string text_of(const Json& json, const char* key) const {
    if (!json[key].is_string()) fail(fmt::format("{}: is no text", key));
    return json[key].get<std::string>();
  }

  int count_of(const Json& json, const char* key) const {
    const double value = positive(json, key);
    if (value != std::floor(value) || value > 1e6) fail(fmt::format("{}: is no count", key));
    return static_cast<int>(value);
  }

  double positive(const Json& json, const char* key) const {
    const double value = json[key].is_number() ? json[key].get<double>() : 0.0;
    if (!(value > 0.0 && std::isfinite(value))) {
      fail(fmt::format("{}: is no positive number", key));
    }
    return value;
  }

  std::string where_;
};

Json rate_json(const CeilingRate& rate) {
  return {{"per_s", rate.per_s}, {"clock_hz", rate.clock_hz}};
}

}  // namespace

const Ceiling* find_ceiling(const Peaks& peaks, CeilingId id) {
  const auto found = std::ranges::find(peaks.ceilings, id, &Ceiling::id);
  return found == peaks.ceilings.end() || !found->reason.empty() ? nullptr : &*found;
}

Json to_json(const Peaks& peaks) {
  Json ceilings = Json::array();
  for (const Ceiling& ceiling : peaks.ceilings) {
    const bool is_measured = ceiling.reason.empty();
    ceilings.push_back({{"id", to_string(ceiling.id)},
                        {"unit", unit_of(ceiling.id)},
                        {"burst", is_measured ? rate_json(ceiling.burst) : Json()},
                        {"settled", is_measured ? rate_json(ceiling.settled) : Json()},
                        {"how", ceiling.how},
                        {"reason", ceiling.reason}});
  }
  return {{"schema", kPeaksSchema},
          {"device", peaks.device},
          {"driver", peaks.driver},
          {"multiprocessors", peaks.multiprocessors},
          {"max_clock_hz", peaks.max_clock_hz},
          {"timestamp", peaks.timestamp},
          {"commit", peaks.commit},
          {"ceilings", ceilings}};
}

Peaks parse_peaks(const std::string& text, const std::string& where) {
  return Reader(where).read(text);
}

std::filesystem::path peaks_file(const Device& device) {
  return device_file("peaks", device, ".json");
}

std::optional<Peaks> load_peaks(const Device& device) {
  const std::filesystem::path file = peaks_file(device);
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) return std::nullopt;
  const Reader reader(file.string());
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream || text.empty()) reader.fail("cannot be read, or is empty");
  Peaks peaks = reader.read(text);
  if (peaks.device != device.name || peaks.driver != device.driver ||
      peaks.multiprocessors != device.multiprocessors) {
    reader.fail(
        fmt::format("is of {}, driver {}, {} multiprocessors, and this device is {}, driver {}, {}",
                    peaks.device, peaks.driver, peaks.multiprocessors, device.name, device.driver,
                    device.multiprocessors));
  }
  return peaks;
}

void save_peaks(const Peaks& peaks, const std::filesystem::path& file) {
  make_folder_of(file);
  const std::string text = to_json(peaks).dump(2) + "\n";
  replace_text(file, text);
}

KnownPeaks known_peaks(const Device& device) {
  if (device.backend != Backend::cuda) return {.reason = "peaks are measured of GPUs only"};
  try {
    std::optional<Peaks> peaks = load_peaks(device);
    if (!peaks)
      return {.reason =
                  "no peaks of this device and driver are known: attnlab peak "
                  "measures them"};
    return {.peaks = std::move(peaks)};
  } catch (const std::exception& error) {
    return {.reason = error.what()};
  }
}

}  // namespace attnlab
