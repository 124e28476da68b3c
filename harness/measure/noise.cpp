#include "harness/measure/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/file_lock.h"
#include "harness/base/statistics.h"
#include "harness/base/strict_json.h"
#include "harness/base/text_file.h"
#include "harness/measure/device_files.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kOfNoise = 3.0;
constexpr double kLeastShare = 0.01;
constexpr const char* kRemedy = "remove it, and measure again with attnlab calibrate";

// Holds two times that should be equal.
using TimePair = std::pair<double, double>;

std::vector<TimePair> pairs_within(const NoiseSession& session, NoiseOf kind) {
  std::vector<TimePair> pairs;
  for (const NoisePoint& point : session.points) {
    for (std::size_t i = 0; i < point.a_s.size(); ++i) {
      if (kind == NoiseOf::turns) pairs.emplace_back(point.a_s[i], point.b_s[i]);
      if (kind != NoiseOf::processes || i == 0) continue;
      pairs.emplace_back(point.a_s[i - 1], point.a_s[i]);
      pairs.emplace_back(point.b_s[i - 1], point.b_s[i]);
    }
  }
  return pairs;
}

double median_of(const NoisePoint& point) {
  std::vector<double> all = point.a_s;
  all.insert(all.end(), point.b_s.begin(), point.b_s.end());
  return median(std::move(all));
}

// Pairs each point of a session with the same point of the last session before it that has it.
std::vector<TimePair> pairs_between(const std::vector<const NoiseSession*>& sessions) {
  std::vector<TimePair> pairs;
  std::map<std::string, double> last;  // by commit, rounds and key
  for (const NoiseSession* session : sessions) {
    if (session->commit.find('-') != std::string::npos) continue;  // "-dirty", "-sources"
    for (const NoisePoint& point : session->points) {
      const std::string key = fmt::format("{} {} {}", session->commit, session->rounds, point.key);
      const double now = median_of(point);
      if (const auto before = last.find(key); before != last.end()) {
        pairs.emplace_back(before->second, now);
      }
      last[key] = now;
    }
  }
  return pairs;
}

double percentile95(std::vector<double> values) {
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(values.size())));
  return values[rank - 1];
}

std::vector<double> read_times(const Json& json, const std::string& where) {
  std::vector<double> times;
  for (const Json& time : json) {
    if (!time.is_number() || !(time.get<double>() > 0.0)) {
      throw UsageError(fmt::format("{}: {} is no time above 0; {}", where, time.dump(), kRemedy));
    }
    times.push_back(time.get<double>());
  }
  return times;
}

NoiseSession read_session(const Json& json, const std::string& where) {
  if (json.value("schema", Json()) != kNoiseSchema) {
    throw UsageError(fmt::format("{}: is not of the schema {}; {}", where, kNoiseSchema, kRemedy));
  }
  NoiseSession session = {.device = json.at("device"),
                          .driver = json.at("driver"),
                          .timestamp = json.at("timestamp"),
                          .commit = json.at("commit"),
                          .rounds = json.at("rounds")};
  const std::string regime = json.at("regime");
  session.regime = regime == to_string(Regime::settled) ? Regime::settled : Regime::burst;
  if (regime != to_string(session.regime)) {
    throw UsageError(fmt::format("{}: there is no regime '{}'; {}", where, regime, kRemedy));
  }
  for (const Json& entry : json.at("points")) {
    NoisePoint point = {.key = entry.at("key"),
                        .a_s = read_times(entry.at("a_s"), where),
                        .b_s = read_times(entry.at("b_s"), where)};
    if (point.a_s.empty() || point.a_s.size() != point.b_s.size()) {
      throw UsageError(
          fmt::format("{}: {} has not as many times of a as of b; {}", where, point.key, kRemedy));
    }
    session.points.push_back(std::move(point));
  }
  return session;
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

const char* to_string(NoiseOf kind) {
  switch (kind) {
    case NoiseOf::turns: return "within a job";
    case NoiseOf::processes: return "between processes";
    case NoiseOf::sessions: return "between sessions";
  }
  return "";
}

int size_class(double seconds) {
  const auto above = std::ranges::upper_bound(kSizeBounds, seconds);
  return static_cast<int>(above - std::begin(kSizeBounds));
}

std::string describe_size_class(int size) {
  const auto text = [](double seconds) { return fmt::format("{:g} ms", 1e3 * seconds); };
  if (size == 0) return "below " + text(kSizeBounds[0]);
  if (size == std::ssize(kSizeBounds)) return "from " + text(kSizeBounds[size - 1]);
  return text(kSizeBounds[size - 1]) + " to " + text(kSizeBounds[size]);
}

std::optional<NoiseLevel> noise_level(const std::vector<NoiseSession>& sessions, NoiseOf kind,
                                      Regime regime, int size) {
  std::vector<const NoiseSession*> of_regime;
  for (const NoiseSession& session : sessions) {
    if (session.regime == regime) of_regime.push_back(&session);
  }
  std::vector<TimePair> pairs;
  if (kind == NoiseOf::sessions) {
    pairs = pairs_between(of_regime);
  } else {
    for (const NoiseSession* session : of_regime) {
      const std::vector<TimePair> own = pairs_within(*session, kind);
      pairs.insert(pairs.end(), own.begin(), own.end());
    }
  }
  std::vector<double> shares, seconds;
  for (const auto& [first, second] : pairs) {
    if (size_class(first) != size) continue;
    shares.push_back(std::abs(second / first - 1.0));
    seconds.push_back(std::abs(second - first));
  }
  if (shares.empty()) return std::nullopt;
  const std::size_t count = shares.size();
  return NoiseLevel{.share = percentile95(std::move(shares)),
                    .seconds = percentile95(std::move(seconds)),
                    .pairs = count};
}

double threshold_share(double noise_share) { return std::max(kLeastShare, kOfNoise * noise_share); }

std::vector<NoiseSession> sessions_for(const std::vector<NoiseSession>& sessions, int rounds) {
  std::vector<NoiseSession> usable;
  for (const NoiseSession& session : sessions) {
    if (session.rounds <= rounds) usable.push_back(session);
  }
  return usable;
}

double noise_threshold(const std::vector<NoiseSession>& sessions, NoiseOf kind, Regime regime,
                       double seconds, double otherwise) {
  const auto level_of = [&](int size) {
    const auto level = noise_level(sessions, kind, regime, size);
    return level && level->pairs >= kFewestNoisePairs ? level : std::nullopt;
  };
  if (const auto own = level_of(size_class(seconds))) {
    return threshold_share(std::min(own->share, own->seconds / seconds));
  }
  double largest = 0.0;
  for (int size = 0; size <= std::ssize(kSizeBounds); ++size) {
    if (const auto level = level_of(size)) {
      largest = std::max(largest, threshold_share(level->share));
    }
  }
  return largest > 0.0 ? largest : otherwise;
}

Json to_json(const NoiseSession& session) {
  Json points = Json::array();
  for (const NoisePoint& point : session.points) {
    points.push_back({{"key", point.key}, {"a_s", point.a_s}, {"b_s", point.b_s}});
  }
  return {{"schema", kNoiseSchema},   {"device", session.device},
          {"driver", session.driver}, {"timestamp", session.timestamp},
          {"commit", session.commit}, {"regime", to_string(session.regime)},
          {"rounds", session.rounds}, {"points", std::move(points)}};
}

std::vector<NoiseSession> parse_noise(const std::string& text, const std::string& where) {
  constexpr int kDeepest = 6;
  std::vector<NoiseSession> sessions;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const std::string place = fmt::format("{}:{}", where, ++number);
    begin = end + 1;
    try {
      sessions.push_back(read_session(parse_strict_json(line, kDeepest, place), place));
    } catch (const nlohmann::json::exception& error) {
      throw UsageError(fmt::format("{}: is no calibration: {}; {}", place, error.what(), kRemedy));
    }
  }
  return sessions;
}

std::filesystem::path noise_file(const Device& device) {
  return device_file("noise", device, ".jsonl");
}

std::vector<NoiseSession> load_noise(const Device& device) {
  const std::filesystem::path file = noise_file(device);
  std::error_code error;
  if (!std::filesystem::exists(file, error) && !error) return {};
  const std::string text = text_of(file);
  if (text.empty()) {
    throw UsageError(fmt::format("{}: cannot be read, or is empty; {}", file.string(), kRemedy));
  }
  std::vector<NoiseSession> sessions = parse_noise(text, file.string());
  for (const NoiseSession& session : sessions) {
    if (session.device == device.name && session.driver == device.driver) continue;
    throw UsageError(fmt::format("{}: is of {}, driver {}, and this device is {}, driver {}; {}",
                                 file.string(), session.device, session.driver, device.name,
                                 device.driver, kRemedy));
  }
  return sessions;
}

void append_noise(const NoiseSession& session, const std::filesystem::path& file) {
  make_folder_of(file);
  const FileLock lock(file);  // GPUs of one name share the file
  std::error_code error;
  std::string text = std::filesystem::exists(file, error) ? text_of(file) : "";
  text += to_json(session).dump() + "\n";
  replace_text(file, text);
}

}  // namespace attnlab
