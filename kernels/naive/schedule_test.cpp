// Every element of every matrix belongs to one block and one lane.
#include "kernels/naive/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace attnlab::naive {
namespace {

Shape make_shape(i64 batch, i64 heads, i64 seqlen_q, i64 seqlen_k) {
  return {.batch = batch,
          .num_heads_q = heads,
          .num_heads_kv = heads,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k};
}

// Counts how often blocks of `rows` x `columns` come by each element.
void expect_each_once(const Shape& shape, i64 rows, i64 columns) {
  std::vector<int> visits(static_cast<std::size_t>(padded_elements(shape)));
  for (u64 block = 0; block < row_blocks(shape, rows, columns); ++block) {
    const RowsPlace place = rows_place(shape, static_cast<u32>(block), rows, columns);
    for (i64 r = place.row; r < min(shape.seqlen_q, place.row + rows); ++r) {
      for (i64 c = place.column; c < min(shape.seqlen_k, place.column + columns); ++c) {
        const i64 offset = padded_strides(shape).offset(place.batch, place.head, r) + c;
        ++visits[static_cast<std::size_t>(offset)];
      }
    }
  }
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const bool is_padding = static_cast<i64>(i) % padded_keys(shape.seqlen_k) >= shape.seqlen_k;
    ASSERT_EQ(visits[i], is_padding ? 0 : 1) << i;
  }
}

TEST(NaiveSchedule, BlocksCoverEachElementOnce) {
  for (const i64 seqlen_q : {1, 15, 16, 17, 40}) {
    for (const i64 seqlen_k : {1, 8, 100, 1024, 1025, 2100}) {
      const Shape shape = make_shape(2, 3, seqlen_q, seqlen_k);
      expect_each_once(shape, kTileRows, kTileColumns);
      expect_each_once(shape, row_class(seqlen_k).rows(), seqlen_k);
    }
  }
}

TEST(NaiveSchedule, TheSmallestClassThatHoldsARow) {
  EXPECT_EQ(row_class(1).columns(), 256);
  EXPECT_EQ(row_class(256).columns(), 256);
  EXPECT_EQ(row_class(257).columns(), 512);
  EXPECT_EQ(row_class(2048).rows(), 8);
  EXPECT_EQ(row_class(2049).rows(), 1);
  EXPECT_EQ(row_class(8192).columns(), 8192);
  EXPECT_EQ(row_class(8193).chunks, 0);
}

TEST(NaiveSchedule, RowsAreAlignedTo16Bytes) {
  for (const i64 seqlen_k : {1, 7, 8, 9, 4097}) {
    const Strides strides = padded_strides(make_shape(2, 3, 5, seqlen_k));
    EXPECT_GE(strides.row, seqlen_k);
    for (const i64 stride : {strides.row, strides.head, strides.batch}) EXPECT_EQ(stride % 8, 0);
  }
}

}  // namespace
}  // namespace attnlab::naive
