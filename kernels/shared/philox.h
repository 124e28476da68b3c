// Philox 4x32-10, the counter-based generator. Source: Salmon, Moraes, Dror and Shaw, Parallel
// random numbers: as easy as 1, 2, 3 (SC 2011). philox_test.cpp holds it to the published known
// answers.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab {

struct PhiloxCounter {
  u32 x = 0, y = 0, z = 0, w = 0;
  ATTNLAB_HD friend constexpr bool operator==(const PhiloxCounter&, const PhiloxCounter&) = default;
};

struct PhiloxKey {
  u32 low = 0, high = 0;
};

ATTNLAB_HD constexpr PhiloxKey philox_key(u64 seed) {
  return {static_cast<u32>(seed), static_cast<u32>(seed >> 32)};
}

ATTNLAB_HD constexpr u32 multiply_high(u32 a, u32 b) {
  return static_cast<u32>((static_cast<u64>(a) * b) >> 32);
}

// Four random words for one counter under one key: ten rounds.
ATTNLAB_HD constexpr PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key) {
  constexpr u32 kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr u32 kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    counter = {.x = multiply_high(kMultiplier1, counter.z) ^ counter.y ^ key.low,
               .y = kMultiplier1 * counter.z,
               .z = multiply_high(kMultiplier0, counter.x) ^ counter.w ^ key.high,
               .w = kMultiplier0 * counter.x};
    key.low += kWeyl0;
    key.high += kWeyl1;
  }
  return counter;
}

}  // namespace attnlab
