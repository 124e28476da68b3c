#include "harness/plan/protocol.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "harness/base/errors.h"

namespace attnlab {

const char* to_string(CacheState cache) { return cache == CacheState::hot ? "hot" : "cold"; }

const char* to_string(Regime regime) { return regime == Regime::burst ? "burst" : "settled"; }

std::string to_string(TimingState state) {
  return fmt::format("{}-{}", to_string(state.cache), to_string(state.regime));
}

std::string why_not(TimingState state, Backend backend) {
  if (backend == Backend::cuda) return "";
  if (state.cache == CacheState::cold) return "cold is measured on GPUs only";
  return state.regime == Regime::settled ? "a CPU has no turns: settled is burst there" : "";
}

Protocol default_protocol(const Device& device, Regime regime) {
  Protocol protocol;
  protocol.regime = regime;
  protocol.verify_multiply_adds = kOracleRate * device.threads;
  if (device.backend == Backend::cuda) {
    protocol.min_rounds = 30;
    protocol.warmup_seconds = 0.5;
    protocol.warmup_launches = 10;
  }
  if (device.backend == Backend::cuda && regime == Regime::settled) {  // turns are long
    protocol.min_rounds = 7;
    protocol.max_rounds = 15;
  }
  return protocol;
}

Protocol resolve(const ProtocolSettings& settings, const Device& device) {
  Protocol protocol = default_protocol(device, settings.regime.value_or(Regime::burst));
  const auto take = [](auto& member, const auto& setting) {
    if (setting) member = *setting;
  };
  take(protocol.min_rounds, settings.min_rounds);
  protocol.max_rounds = std::max(protocol.max_rounds, protocol.min_rounds);
  take(protocol.max_rounds, settings.max_rounds);
  protocol.min_rounds = std::min(protocol.min_rounds, protocol.max_rounds);
  take(protocol.max_seconds, settings.max_seconds);
  take(protocol.interval, settings.interval);
  take(protocol.warmup_seconds, settings.warmup_seconds);
  take(protocol.warmup_launches, settings.warmup_launches);
  take(protocol.cache, settings.cache);
  take(protocol.turn_seconds, settings.turn_seconds);
  take(protocol.verify_multiply_adds, settings.verify_multiply_adds);
  take(protocol.verify_seconds, settings.verify_seconds);
  const std::string no_cache = why_not({.cache = protocol.cache}, device.backend);
  if (!no_cache.empty()) {
    throw UsageError(fmt::format("protocol.cache: {}: write hot, or --backend cuda", no_cache));
  }
  if (settings.turn_seconds && protocol.regime == Regime::burst) {
    throw UsageError(
        "protocol.turn_seconds: a burst has no turns: leave it out, or regime=settled");
  }
  return protocol;
}

std::string to_string(const Protocol& protocol, const Device& device) {
  const Protocol defaults = default_protocol(device, protocol.regime);
  std::vector<std::string> parts;
  const auto add = [&](const char* key, auto value, auto default_value) {
    if (value != default_value) parts.push_back(fmt::format("{}={}", key, value));
  };
  add("min_rounds", protocol.min_rounds, defaults.min_rounds);
  add("max_rounds", protocol.max_rounds, defaults.max_rounds);
  add("max_seconds", protocol.max_seconds, defaults.max_seconds);
  add("interval", protocol.interval, defaults.interval);
  add("warmup_seconds", protocol.warmup_seconds, defaults.warmup_seconds);
  add("warmup_launches", protocol.warmup_launches, defaults.warmup_launches);
  add("cache", std::string_view(to_string(protocol.cache)), to_string(defaults.cache));
  add("regime", std::string_view(to_string(protocol.regime)), to_string(Regime::burst));
  add("turn_seconds", protocol.turn_seconds, defaults.turn_seconds);
  add("verify_multiply_adds", protocol.verify_multiply_adds, defaults.verify_multiply_adds);
  add("verify_seconds", protocol.verify_seconds, defaults.verify_seconds);
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace attnlab
