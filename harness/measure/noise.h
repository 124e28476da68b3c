// Says how much times of equal kernels differ on this machine. attnlab calibrate measures it and
// keeps a file of JSON lines for each device name and driver, a line for each calibration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/plan/protocol.h"

namespace attnlab {

inline constexpr const char* kNoiseSchema = "attnlab.noise/1";

// Holds a point that competed with itself: the medians of both runs of each job.
struct NoisePoint {
  std::string key;  // record_key()
  std::vector<double> a_s, b_s;
};

struct NoiseSession {
  std::string device, driver, timestamp, commit;
  Regime regime = Regime::burst;
  int rounds = 0;  // samples behind a median
  std::vector<NoisePoint> points;
};

// Says what stands side by side: runs that take turns in one job, or one run and a stored one.
enum class NoiseOf : std::uint8_t { turns, processes, sessions };
const char* to_string(NoiseOf kind);

// Holds the 95th percentile (nearest rank) of how far equal times were apart.
struct NoiseLevel {
  double share = 0.0;  // of the time
  double seconds = 0.0;
  std::size_t pairs = 0;  // of times, behind it
};

// These are seconds. Launches between two of these lengths have noise of their own.
inline constexpr double kSizeBounds[] = {100e-6, 1e-3, 10e-3};
// Returns 0 below the first bound, 1 below the second, and so on.
int size_class(double seconds);
std::string describe_size_class(int size);

// A percentile needs at least this many pairs of times.
inline constexpr std::size_t kFewestNoisePairs = 20;

// Returns the noise of a size class and regime; nothing where there are no such pairs. `turns`
// pairs the two runs of a job, `processes` each run with the one of the next job, `sessions` the
// medians of a point in one calibration and the next, where commit and rounds are the same; a dirty
// commit is never the same as another.
std::optional<NoiseLevel> noise_level(const std::vector<NoiseSession>& sessions, NoiseOf kind,
                                      Regime regime, int size);

// Returns three times the noise, and at least 1 %.
double threshold_share(double noise_share);

// Returns the sessions of at most so many rounds: their noise is no smaller than that of `rounds`.
std::vector<NoiseSession> sessions_for(const std::vector<NoiseSession>& sessions, int rounds);

// Returns the share of a time from which on a change counts: three times the noise of the size of
// `seconds`, at least 1 %. The noise, known as a share and in seconds, holds either way for all
// times of the size, but the share is too wide for the longest and the seconds for the shortest, so
// the smaller counts. Where that size was not measured, three times the largest share of another
// counts; where none was, `otherwise`. A size counts as measured from kFewestNoisePairs on.
double noise_threshold(const std::vector<NoiseSession>& sessions, NoiseOf kind, Regime regime,
                       double seconds, double otherwise);

nlohmann::ordered_json to_json(const NoiseSession& session);
// Reads a noise file. Throws UsageError, led by `where`, with the remedy.
std::vector<NoiseSession> parse_noise(const std::string& text, const std::string& where);

// Returns cache_folder()/noise/NAME-DRIVER.jsonl.
std::filesystem::path noise_file(const Device& device);
// Reads the device's file; returns nothing where there is none. Throws UsageError for a file that
// cannot be read or is damaged.
std::vector<NoiseSession> load_noise(const Device& device);
// Adds a line to the file, whose folder it makes. Throws UsageError.
void append_noise(const NoiseSession& session, const std::filesystem::path& file);

}  // namespace attnlab
