// Implements Philox 4x32-10, the counter-based generator. Source: Salmon, Moraes, Dror and Shaw,
// Parallel random numbers: as easy as 1, 2, 3 (SC 2011). philox_test.cpp holds it to the published
// known answers.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

struct PhiloxCounter {
  u32 x = 0, y = 0, z = 0, w = 0;
  ATTNLAB_HD friend constexpr bool operator==(const PhiloxCounter&, const PhiloxCounter&) = default;
};

constexpr int kPhiloxRounds = 10;
constexpr u32 kPhiloxMultiplier0 = 0xD2511F53, kPhiloxMultiplier1 = 0xCD9E8D57;
constexpr u32 kPhiloxWeyl0 = 0x9E3779B9, kPhiloxWeyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1

struct PhiloxKey {
  u32 low = 0, high = 0;
};

ATTNLAB_HD constexpr PhiloxKey philox_key(u64 seed) {
  return {static_cast<u32>(seed), static_cast<u32>(seed >> 32)};
}

ATTNLAB_HD constexpr u32 multiply_high(u32 a, u32 b) {
  return static_cast<u32>((static_cast<u64>(a) * b) >> 32);
}

// Returns four random words for one counter under one key, after ten rounds.
ATTNLAB_HD constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    counter = {.x = multiply_high(kPhiloxMultiplier1, counter.z) ^ counter.y ^ key.low,
               .y = kPhiloxMultiplier1 * counter.z,
               .z = multiply_high(kPhiloxMultiplier0, counter.x) ^ counter.w ^ key.high,
               .w = kPhiloxMultiplier0 * counter.x};
    key.low += kPhiloxWeyl0;
    key.high += kPhiloxWeyl1;
  }
  return counter;
}

}  // namespace attnlab
