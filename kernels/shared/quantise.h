// Makes e4m3 of inputs, as far as one row, one scale or one place goes, for the laboratory's
// quantisation (kernels/api/quantise.h). Every operation is one fp32 operation rounded to nearest,
// in the order that is written here; none may be contracted.
//
// Sources: FlashAttention-3 (arXiv 2407.08608), section 3.3, of block scales and the rotation; the
// order of V^T's keys is that of wgmma's accumulators and A fragments (PTX ISA, wgmma).
#pragma once

#include "kernels/shared/convert.h"
#include "kernels/shared/philox.h"

namespace attnlab {

// This many rows of Q, or keys of K and V, share a scale where blocks have scales. The keys of V^T
// are padded to a multiple of it.
constexpr i64 kScaleRows = 128;
constexpr float kLargestE4m3 = 448.0f;
constexpr u8 kNanE4m3 = 0x7F;

// P lies in [0, 1] and would use half of e4m3's exponents: kernels multiply it with 2^kShiftOfP,
// which lse gives back exactly. The running maximum may lag behind by kSlackOfP powers of two at
// the most: 2^8.8 is 446, and e4m3 ends at 448.
constexpr float kShiftOfP = 8.0f;
constexpr float kSlackOfP = 0.8f;
static_assert(kShiftOfP + kSlackOfP < 8.807f, "log2(448): conversion would cut off larger P");

// A scale turns codes back into values: value = code * scale. It is amax / 448, so that the largest
// becomes the largest code, 1 where all is 0, and never subnormal: its reciprocal is finite.
ATTNLAB_HD constexpr float e4m3_scale(float amax) {
  return amax == 0.0f ? 1.0f : max(amax / kLargestE4m3, 0x1p-126f);
}

// Values are multiplied with the rounded reciprocal of their scale: one division a scale.
ATTNLAB_HD constexpr float e4m3_multiplier(float scale) { return 1.0f / scale; }

// Gives NaN no sign, as a GPU does: processors differ in which one it gets.
ATTNLAB_HD constexpr u8 quantise(float value, float multiplier) {
  const float scaled = value * multiplier;
  return scaled == scaled ? e4m3_from_f32(scaled) : kNanE4m3;
}

// Returns the larger of amax and |value|. NaN is passed over (it becomes NaN in e4m3), and infinity
// counts as the largest finite number (it becomes 448 times the scale).
ATTNLAB_HD constexpr float update_amax(float amax, float value) {
  const float size = value < 0.0f ? -value : value;
  return size > amax ? min(size, 0x1.FFFFFEp127f) : amax;
}

// The rotation's random signs r depend on the seed, the K/V head and the column, not on entry or
// row: so a group's query heads have those of the K head that they meet, and Q K^T stays. If bit c
// % 32 of word c / 32 % 4 of Philox's result is set, column c changes its sign. The counter is {c /
// 128, K/V head, 0, kSignsStream}; dropout, under the same key, stays below 32 in its last.
constexpr u32 kSignsStream = 0x5167u;

ATTNLAB_HD constexpr PhiloxCounter rotation_signs(PhiloxKey key, i64 head_kv, i64 columns_128) {
  return philox({.x = static_cast<u32>(columns_128),
                 .y = static_cast<u32>(head_kv),
                 .z = 0,
                 .w = kSignsStream},
                key);
}

// Returns the signs of 32 columns: word 0 to 3.
ATTNLAB_HD constexpr u32 sign_bits(const PhiloxCounter& signs, i64 word) {
  return word == 0 ? signs.x : word == 1 ? signs.y : word == 2 ? signs.z : signs.w;
}

ATTNLAB_HD constexpr bool changes_sign(const PhiloxCounter& signs, i64 column) {
  return (sign_bits(signs, column / 32 % 4) >> (column % 32) & 1u) != 0;
}

// The rotation goes in blocks of columns, whose widths are the powers of two that head_dim is the
// sum of, the largest first: 80 = 64 + 16. Returns the width of the block that begins at `column`.
ATTNLAB_HD constexpr i64 rotation_block(i64 head_dim, i64 column) {
  const i64 rest = head_dim - column;
  i64 width = 1;
  while (2 * width <= rest) width *= 2;
  return width;
}

// Returns 1 / sqrt(width), width a power of two, rounded once.
ATTNLAB_HD constexpr float rotation_scale(i64 width) {
  float scale = 1.0f;
  for (; width >= 4; width /= 4) scale *= 0.5f;
  return width == 2 ? scale * 0.70710678118654752440f : scale;
}

// Computes x' = x diag(r) H / sqrt(width) in place, H the Walsh-Hadamard matrix of every block. It
// applies the signs first; then butterflies of stride 1, 2, 4, ... width / 2, each of which makes
// (a + b, a - b) of columns (i, i + stride); then the scale.
ATTNLAB_HD constexpr void rotate_row(float* row, i64 head_dim, PhiloxKey key, i64 head_kv) {
  for (i64 first = 0; first < head_dim; first += 128) {
    const PhiloxCounter signs = rotation_signs(key, head_kv, first / 128);
    for (i64 column = first; column < min(first + 128, head_dim); ++column) {
      if (changes_sign(signs, column)) row[column] = -row[column];
    }
  }
  for (i64 begin = 0, width = 0; begin < head_dim; begin += width) {
    width = rotation_block(head_dim, begin);
    for (i64 stride = 1; stride < width; stride *= 2) {
      for (i64 i = 0; i < width; ++i) {
        if ((i & stride) != 0) continue;
        float& lower = row[begin + i];
        float& upper = row[begin + i + stride];
        const float sum = lower + upper;
        const float difference = lower - upper;
        lower = sum;
        upper = difference;
      }
    }
    for (i64 i = 0; i < width; ++i) row[begin + i] *= rotation_scale(width);
  }
}

// V^T is [batch][num_heads_kv][head_dim][keys], an entry's keys padded with zeros to a multiple of
// kScaleRows and permuted in groups of 16: slot p holds key pi(p) of its group, 0 1 8 9 2 3 10 11 4
// 5 12 13 6 7 14 15. So what a lane holds of S after Q K^T, keys 2t, 2t + 1, 8 + 2t and 9 + 2t, is
// the four consecutive k of its A fragment of P V.
ATTNLAB_HD constexpr i64 key_of_slot(i64 slot) {
  return 2 * (slot / 4) + slot % 2 + 8 * (slot / 2 % 2);
}

// Returns the inverse: where key 0 to 15 of a group stands.
ATTNLAB_HD constexpr i64 slot_of_key(i64 key) {
  return 4 * (key % 8 / 2) + 2 * (key / 8) + key % 2;
}

// Packed, V^T is [num_heads_kv][head_dim][keys of all entries]; entry b, whose first key is
// `first_key` of all, begins here. Each has room for its padded keys, without a list of its own.
ATTNLAB_HD constexpr i64 first_transposed_key(i64 first_key, i64 b) {
  return (first_key / kScaleRows + b) * kScaleRows;
}

}  // namespace attnlab
