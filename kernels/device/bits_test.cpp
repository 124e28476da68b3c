// Compares bits of masks and dropout with the definitions, element by element.
#include "kernels/device/bits.h"

#include <gtest/gtest.h>

#include <vector>

namespace attnlab::device {
namespace {

template <i32 kKeys>
void expect_visible_bits(const Mask& mask) {
  for (i64 r = 0; r < mask.seqlen_q; ++r) {
    for (i64 first = 0; first < mask.seqlen_k; first += kKeys) {
      const u32 bits = visible_bits<kKeys>(mask, band(mask, r), r, first);
      for (i64 i = 0; i < kKeys; ++i) {
        const bool want = first + i < mask.seqlen_k && is_visible(mask, r, first + i);
        ASSERT_EQ(bits >> i & 1, want ? 1U : 0U) << r << " " << first + i;
      }
      ASSERT_EQ(bits & ~low_bits(kKeys), 0U);
    }
  }
}

template <i32 kRows>
void expect_seeing_bits(const Mask& mask) {
  for (i64 c = 0; c < mask.seqlen_k; ++c) {
    for (i64 first = 0; first < mask.seqlen_q; first += kRows) {
      const u32 bits = seeing_bits<kRows>(mask, band_rows(mask, c), c, first);
      for (i64 i = 0; i < kRows; ++i) {
        const bool want = first + i < mask.seqlen_q && is_visible(mask, first + i, c);
        ASSERT_EQ(bits >> i & 1, want ? 1U : 0U) << first + i << " " << c;
      }
      ASSERT_EQ(bits & ~low_bits(kRows), 0U);
    }
  }
}

void expect_bits_of_all_widths(const Mask& mask) {
  expect_visible_bits<8>(mask);
  expect_visible_bits<32>(mask);
  expect_seeing_bits<16>(mask);
  expect_seeing_bits<32>(mask);
}

TEST(VisibleBits, Band) {
  for (const i64 seqlen_q : {1, 20, 70}) {
    for (const i64 seqlen_k : {1, 31, 64, 77}) {
      for (const i64 left : {-1, 0, 5, 40}) {
        for (const i64 right : {-1, 0, 7}) {
          for (const i64 valid_k : {i64{0}, seqlen_k / 2, seqlen_k}) {
            expect_bits_of_all_widths({.seqlen_q = seqlen_q,
                                       .seqlen_k = seqlen_k,
                                       .left = left,
                                       .right = right,
                                       .valid_k = valid_k});
          }
        }
      }
    }
  }
}

TEST(VisibleBits, BlockPatterns) {
  constexpr i64 kQueries = 50, kKeys = 83;
  for (const i32 block_q : {1, 7, 16}) {
    for (const i32 block_k : {1, 3, 8, 20, 100}) {
      const i64 blocks_k = ceil_div<i64>(kKeys, block_k);
      // The vector is exactly as long as the pattern: AddressSanitizer reports a read past its end.
      std::vector<u8> visible(
          static_cast<std::size_t>(ceil_div<i64>(kQueries, block_q) * blocks_k));
      for (std::size_t i = 0; i < visible.size(); ++i) visible[i] = i * 7 % 3 != 0 ? 1 : 0;
      const BlockPattern blocks = {
          .visible = visible.data(), .block_q = block_q, .block_k = block_k, .blocks_k = blocks_k};
      for (const i64 left : {-1, 9}) {
        expect_bits_of_all_widths({.seqlen_q = kQueries,
                                   .seqlen_k = kKeys,
                                   .left = left,
                                   .valid_k = kKeys - 4,
                                   .blocks = blocks});
      }
    }
  }
}

TEST(KeptBits, OfARow) {
  for (const double p : {0.0, 0.1, 0.9}) {
    const Dropout dropout = make_dropout(p, 0x123456789ABCDEFu);
    for (const i64 slice : {0, 5}) {
      for (i64 row = 0; row < 40; ++row) {
        for (const i64 first : {0, 16, 32, 4096}) {
          const u32 bits = kept_bits_of_row(dropout, slice, row, first);
          for (i64 i = 0; i < 32; ++i) {
            ASSERT_EQ(bits >> i & 1, is_kept(dropout, slice, row, first + i) ? 1U : 0U)
                << slice << " " << row << " " << first + i;
          }
        }
      }
    }
  }
}

// Two lanes that exchange what they have for each other know their 8 columns of both rows.
TEST(KeptShare, LanesOfAPair) {
  for (const double p : {0.0, 0.1, 0.5}) {
    const Dropout dropout = make_dropout(p, 42);
    for (const i64 slice : {0, 7}) {
      for (i64 row = 0; row < 64; ++row) {
        if (row % 16 >= 8) continue;
        for (i64 column = 0; column < 64; column += 8) {
          const KeptShare lane = kept_share(dropout, slice, row, column);
          const KeptShare other = kept_share(dropout, slice, row, column ^ 8);
          const u32 bits = lane.own | other.neighbour;
          for (i64 i = 0; i < 16; ++i) {
            const i64 r = row + i / 8 * 8, c = column + i % 8;
            ASSERT_EQ(bits >> i & 1, is_kept(dropout, slice, r, c) ? 1U : 0U)
                << slice << " " << r << " " << c;
          }
          ASSERT_EQ(lane.own & other.neighbour, 0U);
        }
      }
    }
  }
}

// Element h of a call is the one that dropout.h says.
TEST(KeptOfCall, AreTheElementsOfTheCall) {
  const Dropout dropout = make_dropout(0.4, 99);
  for (const i64 row : {32, 35, 39}) {
    for (const i64 column : {48, 50, 54}) {
      const u32 bits = kept_of_call(dropout, philox(dropout_counter(3, row, column), dropout.key));
      for (i64 h = 0; h < 8; ++h) {
        const i64 of_row = row + 8 * (h / 2 % 2), of_column = column + 8 * (h / 4) + h % 2;
        EXPECT_EQ((bits >> h & 1) != 0, is_kept(dropout, 3, of_row, of_column)) << h;
      }
    }
  }
}

}  // namespace
}  // namespace attnlab::device
