// Tests 16-bit storage types: every instruction set gives the bits of shared/convert.h.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "kernels/cpu/tile_ops.h"
#include "kernels/shared/convert.h"

namespace attnlab::cpu {
namespace {

struct HalfType {
  const char* name;
  HalfOps TileOps::*ops;
  u16 (*encode)(float);
  float (*decode)(u16);
};
constexpr HalfType kTypes[] = {{"f16", &TileOps::f16, f16_from_f32, f32_from_f16},
                               {"bf16", &TileOps::bf16, bf16_from_f32, f32_from_bf16}};

class TileOpsHalfTest : public testing::TestWithParam<const TileOps*> {};

INSTANTIATE_TEST_SUITE_P(Isa, TileOpsHalfTest,
                         testing::ValuesIn(supported_tile_ops().begin(),
                                           supported_tile_ops().end()),
                         [](const auto& param) { return std::string(param.param->isa); });

TEST_P(TileOpsHalfTest, DecodesEveryValue) {
  std::vector<u16> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<u16>(i);
  for (const HalfType& type : kTypes) {
    std::vector<float> decoded(halves.size());
    (GetParam()->*type.ops).decode(halves.data(), std::ssize(halves), decoded.data());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(bit_cast<u32>(decoded[i]), bit_cast<u32>(type.decode(halves[i])))
          << type.name << " " << std::hex << i;
    }
  }
}

// Returns every upper 19 bits of an fp32, with the lower 13 at both ends and around their middle.
// f16 keeps at most these 19 bits and bf16 the upper 16, so both sides of every boundary of
// rounding are here, those of subnormals too, and every class of fp32.
std::vector<float> rounding_boundaries() {
  std::vector<float> values;
  for (u32 upper = 0; upper < (1u << 19); ++upper) {
    for (const u32 rest : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu}) {
      values.push_back(bit_cast<float>((upper << 13) | rest));
    }
  }
  return values;
}

TEST_P(TileOpsHalfTest, EncodesAndRoundsAroundEveryBoundary) {
  const std::vector<float> values = rounding_boundaries();
  std::vector<u16> encoded(values.size());
  for (const HalfType& type : kTypes) {
    const HalfOps& ops = GetParam()->*type.ops;
    ops.encode(values.data(), std::ssize(values), encoded.data());
    std::vector<float> rounded = values;
    ops.round(rounded.data(), std::ssize(rounded));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const u16 want = type.encode(values[i]);
      ASSERT_EQ(encoded[i], want) << type.name << " of " << std::hex << bit_cast<u32>(values[i]);
      ASSERT_EQ(bit_cast<u32>(rounded[i]), bit_cast<u32>(type.decode(want)))
          << type.name << " of " << std::hex << bit_cast<u32>(values[i]);
    }
  }
}

TEST_P(TileOpsHalfTest, RowsOfAnyLengthEndWhereTheyEnd) {
  for (const HalfType& type : kTypes) {
    const HalfOps& ops = GetParam()->*type.ops;
    for (i64 n = 0; n <= 2 * kTileColumns + 1; ++n) {
      std::vector<float> values(static_cast<std::size_t>(n));
      for (i64 i = 0; i < n; ++i) {
        values[static_cast<std::size_t>(i)] = static_cast<float>(i) / 3.0f - 5.0f;
      }
      std::vector<u16> halves(values.size() + 2, 0xABCD);
      ops.encode(values.data(), n, halves.data() + 1);
      std::vector<float> decoded(values.size() + 2, 9.0f);
      ops.decode(halves.data() + 1, n, decoded.data() + 1);
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(halves[i + 1], type.encode(values[i])) << type.name << " " << i << " of " << n;
        ASSERT_EQ(decoded[i + 1], type.decode(halves[i + 1])) << type.name << " " << i;
      }
      EXPECT_EQ(halves.front(), 0xABCD);
      EXPECT_EQ(halves.back(), 0xABCD) << type.name << " wrote past " << n;
      EXPECT_EQ(decoded.front(), 9.0f);
      EXPECT_EQ(decoded.back(), 9.0f) << type.name << " wrote past " << n;
    }
  }
}

}  // namespace
}  // namespace attnlab::cpu
