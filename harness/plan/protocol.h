// The protocol says how a case is measured and verified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/api/device.h"

namespace attnlab {

// hot: launches find the inputs where the launch before left them. cold: they go round through so
// many copies of the inputs that no cache holds one until it is read again.
enum class CacheState : std::uint8_t { hot, cold };
const char* to_string(CacheState cache);

// burst: the device rests between samples, and is cool. settled: it is under load all the time, one
// competitor's for a turn, so that a GPU's clock is what its power limit leaves that competitor.
enum class Regime : std::uint8_t { burst, settled };
const char* to_string(Regime regime);

// A sample has as many launches as take this long: far above the clock's resolution.
inline constexpr double kLeastSampleSeconds = 1e-3;
// In bursts a GPU rests before each sample, for this many times as long as the last one took.
inline constexpr double kRestsPerBurstSample = 4.0;

// Holds the two choices that move a time most: what caches hold, how warm the device is.
struct TimingState {
  CacheState cache = CacheState::hot;
  Regime regime = Regime::burst;
  bool operator==(const TimingState&) const = default;
};
inline constexpr TimingState kTimingStates[] = {{CacheState::hot, Regime::burst},
                                                {CacheState::cold, Regime::burst},
                                                {CacheState::hot, Regime::settled},
                                                {CacheState::cold, Regime::settled}};
std::string to_string(TimingState state);  // "cold-settled", also a part of a file's name

// Says why a backend has no such state; "" where it has.
std::string why_not(TimingState state, Backend backend);

// The oracle does this many multiply-adds a second on a thread (reference::choose_samples()).
inline constexpr std::int64_t kOracleRate = std::int64_t{1} << 30;
// References on a GPU may take this many seconds of a case (WholeReference).
inline constexpr double kReferenceSeconds = 10.0;

// Says how each case is measured and verified (docs: results/README.md). The values here are those
// of a CPU with one thread.
struct Protocol {
  int min_rounds = 9;  // interleaved rounds that every competitor gets
  int max_rounds = 100;
  double max_seconds = 15.0;  // hard stop of the timing of one competitor
  double interval = 0.005;    // stop when the 95 % interval of the median is within this share
  double warmup_seconds = 0.2;
  int warmup_launches = 1;  // at least
  CacheState cache = CacheState::hot;
  Regime regime = Regime::burst;
  double turn_seconds = 1.0;  // settled: 70 % of it load, then one sample
  // The oracle may spend this much on one case, and as much again after it is timed; beyond, it
  // looks at samples. By default all threads of the device's host take a second for it.
  std::int64_t verify_multiply_adds = kOracleRate;
  // On a GPU references of all heads may take so long by the device's rates; beyond, heads are
  // drawn.
  double verify_seconds = kReferenceSeconds;
  bool operator==(const Protocol&) const = default;
};

Protocol default_protocol(const Device& device, Regime regime = Regime::burst);

// A sweep sets these of its protocol; the rest stays at the device's default.
struct ProtocolSettings {
  std::optional<int> min_rounds, max_rounds, warmup_launches;
  std::optional<double> max_seconds, interval, warmup_seconds, turn_seconds, verify_seconds;
  std::optional<CacheState> cache;
  std::optional<Regime> regime;
  std::optional<std::int64_t> verify_multiply_adds;
  bool operator==(const ProtocolSettings&) const = default;
};

// Fills in defaults. Throws UsageError for contradictions: cold caches on a CPU, turns of a burst.
Protocol resolve(const ProtocolSettings& settings, const Device& device);

// Lists the keys that differ from the device's defaults, as set_protocol() reads them; "" if none
// does.
std::string to_string(const Protocol& protocol, const Device& device);

}  // namespace attnlab
