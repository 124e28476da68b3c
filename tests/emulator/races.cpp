#include "tests/emulator/races.h"

#include <algorithm>

namespace attnlab::emulator {
namespace {

constexpr u64 kWordBytes = 4;
constexpr int kBoxAgents = 8;

}  // namespace

// Agents are warps, then copies and stores of each, products of each warpgroup, and boxes.
Races::Races(const u8* shared, u64 bytes, int warps)
    : shared_(shared),
      bytes_(bytes),
      warps_(warps),
      agents_(static_cast<std::size_t>(3 * warps + (warps + 3) / 4 + kBoxAgents)),
      shadow_(shadow()),
      clocks_(static_cast<std::size_t>(warps), VectorClock(agents_)),
      steps_(agents_) {
  const std::size_t words = (bytes + kWordBytes - 1) / kWordBytes;
  ++shadow_.blocks;
  if (shadow_.words.size() < words) shadow_.words.resize(words);
  if (shadow_.reads.size() < words * agents_) shadow_.reads.resize(words * agents_);
  for (int warp = 0; warp < warps; ++warp) of_warp(warp)[static_cast<std::size_t>(warp)] = 1;
}

Races::Shadow& Races::shadow() {
  static thread_local Shadow the_shadow;
  return the_shadow;
}

Races::Word& Races::word_at(u64 index) {
  Word& word = shadow_.words[index];
  if (word.block != shadow_.blocks) {
    word = {.block = shadow_.blocks};
    std::fill_n(&shadow_.reads[index * agents_], agents_, 0);
  }
  return word;
}

void Races::join(VectorClock& clock, const VectorClock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

int Races::agent(Engine engine, int of) const {
  switch (engine) {
    case Engine::copies: return warps_ + of;
    case Engine::stores: return 2 * warps_ + of;
    case Engine::products: return 3 * warps_ + of;
    case Engine::boxes: break;
  }
  return 3 * warps_ + (warps_ + 3) / 4 + of % kBoxAgents;
}

std::string Races::access(int agent, const VectorClock& clock, const u8* at, u64 bytes,
                          Access kind) {
  if (at < shared_ || at >= shared_ + bytes_) return "";
  const auto own = static_cast<std::size_t>(agent);
  const u64 first = static_cast<u64>(at - shared_) / kWordBytes;
  const u64 last = std::min(bytes_ - 1, static_cast<u64>(at - shared_) + bytes - 1) / kWordBytes;
  for (u64 word = first; word <= last; ++word) {
    const auto race_with = [&](const std::string& what, int other) {
      return "a race for the word at " + std::to_string(word * kWordBytes) +
             " of shared memory: " + name(agent) + (kind == Access::read ? " reads" : " writes") +
             " it, and no barrier orders that after " + name(other) + what;
    };
    Word& now = word_at(word);
    if (now.writer >= 0 && now.write > clock[static_cast<std::size_t>(now.writer)]) {
      return race_with("'s write", now.writer);
    }
    u32* const reads = &shadow_.reads[word * agents_];
    if (kind == Access::read) {
      reads[own] = clock[own];
      continue;
    }
    for (std::size_t other = 0; other < agents_; ++other) {
      if (reads[other] > clock[other]) return race_with("'s read", static_cast<int>(other));
    }
    now.writer = agent;
    now.write = clock[own];
  }
  return "";
}

VectorClock Races::start(int warp, int agent) {
  VectorClock clock = of_warp(warp);
  clock[static_cast<std::size_t>(agent)] = ++steps_[static_cast<std::size_t>(agent)];
  ++of_warp(warp)[static_cast<std::size_t>(warp)];
  return clock;
}

std::string Races::name(int agent) const {
  const auto of = [](const char* what, int number) { return what + std::to_string(number); };
  if (agent < warps_) return of("warp ", agent);
  if (agent < 2 * warps_) return of("a copy of warp ", agent - warps_);
  if (agent < 3 * warps_) return of("a bulk store of warp ", agent - 2 * warps_);
  if (agent < 3 * warps_ + (warps_ + 3) / 4)
    return of("a product of warpgroup ", agent - 3 * warps_);
  return "a bulk copy";
}

}  // namespace attnlab::emulator
