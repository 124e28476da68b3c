// Compares Philox4x32-10 with the known answers that its authors publish with Random123, file
// tests/kat_vectors, lines "philox4x32 10".
#include "kernels/shared/philox.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

struct KnownAnswer {
  PhiloxCounter counter;
  PhiloxKey key;
  PhiloxCounter answer;
};

constexpr KnownAnswer kKnownAnswers[] = {
    {.counter = {0, 0, 0, 0},
     .key = {0, 0},
     .answer = {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
    {.counter = {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF},
     .key = {0xFFFFFFFF, 0xFFFFFFFF},
     .answer = {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
    {.counter = {0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},  // digits of pi
     .key = {0xA4093822, 0x299F31D0},
     .answer = {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
};

static_assert(philox(kKnownAnswers[0].counter, kKnownAnswers[0].key) == kKnownAnswers[0].answer);
static_assert(philox(kKnownAnswers[1].counter, kKnownAnswers[1].key) == kKnownAnswers[1].answer);
static_assert(philox(kKnownAnswers[2].counter, kKnownAnswers[2].key) == kKnownAnswers[2].answer);

// Checks the same at run time, where the optimiser sees the rounds another way.
TEST(Philox, GivesThePublishedAnswers) {
  for (const KnownAnswer& known : kKnownAnswers) {
    EXPECT_TRUE(philox(known.counter, known.key) == known.answer)
        << std::hex << "counter " << known.counter.x << " " << known.counter.y << " "
        << known.counter.z << " " << known.counter.w;
  }
}

TEST(Philox, KeyIsTheSeedLowWordFirst) {
  const PhiloxKey key = philox_key(0x0123456789ABCDEF);
  EXPECT_EQ(key.low, 0x89ABCDEFu);
  EXPECT_EQ(key.high, 0x01234567u);
}

}  // namespace
}  // namespace attnlab
