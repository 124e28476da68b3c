#include "kernels/cpu/executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/shared/softmax.h"

namespace attnlab::cpu {
namespace {

TEST(Executor, LoadCountsCopiesAndClearsTheRest) {
  std::vector<float> memory(100);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i + 1);
  alignas(64) float storage[4 * 16];
  std::fill(std::begin(storage), std::end(storage), NAN);
  const Tile tile = {.data = storage, .rows = 4, .columns = 5, .ld = 16};
  Executor executor(supported_tile_ops().front());
  const GlobalRows rows = {.operand = Operand::k,
                           .data = memory.data(),
                           .offset = 10,
                           .row_stride = 20,
                           .rows = 3,
                           .columns = 5};
  executor.load(rows, tile);
  EXPECT_EQ(executor.traffic()[Operand::k].read_bytes, 3 * 5 * 4);
  EXPECT_EQ(executor.traffic().write_bytes(), 0);
  for (i64 r = 0; r < 4; ++r) {
    for (i64 c = 0; c < 16; ++c) {
      const float want = r < 3 && c < 5 ? static_cast<float>(10 + r * 20 + c + 1) : 0.0f;
      EXPECT_EQ(storage[r * 16 + c], want) << r << " " << c;
    }
  }
}

TEST(Executor, StoreCountsAndWritesItsRowsOnly) {
  std::vector<float> memory(60, -1.0f);
  alignas(64) float storage[2 * 16];
  for (int i = 0; i < 32; ++i) storage[i] = static_cast<float>(i);
  Executor executor(supported_tile_ops().front());
  executor.store({.data = storage, .rows = 2, .columns = 3, .ld = 16}, {.operand = Operand::o,
                                                                        .data = memory.data(),
                                                                        .offset = 4,
                                                                        .row_stride = 30,
                                                                        .rows = 2,
                                                                        .columns = 3});
  EXPECT_EQ(executor.traffic()[Operand::o].write_bytes, 2 * 3 * 4);
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const bool first = i >= 4 && i < 7, second = i >= 34 && i < 37;
    const float want = first    ? static_cast<float>(i - 4)
                       : second ? static_cast<float>(16 + i - 34)
                                : -1.0f;
    EXPECT_EQ(memory[i], want) << i;
  }
}

TEST(Executor, CountOnlyTouchesNoMemory) {
  Executor executor(nullptr);
  const Tile nowhere = {.rows = 8, .columns = 8, .ld = 16};
  const GlobalRows rows = {.operand = Operand::q, .row_stride = 8, .rows = 8, .columns = 8};
  executor.load(rows, nowhere);
  executor.store(nowhere, rows);
  executor.multiply(nowhere, nowhere, nowhere);
  executor.softmax_step(nowhere, 1.0f, {});
  executor.hide({}, {.tile = nowhere, .rows = {0, 8}, .keys = {0, 8}});
  executor.finish_rows(nowhere, {});
  executor.transpose(nowhere, nowhere);
  executor.fill(nowhere, 1.0f);
  EXPECT_EQ(executor.traffic()[Operand::q].read_bytes, 256);
  EXPECT_EQ(executor.traffic()[Operand::q].write_bytes, 256);
}

TEST(Executor, HidesExactlyWhatTheMaskHides) {
  const u8 pattern[] = {1, 0, 1, 0, 1, 1, 1, 1, 0};  // 3 x 3 blocks of 5 x 4
  for (const bool blocks : {false, true}) {
    for (const i64 left : {-1L, 0L, 3L}) {
      for (const i64 right : {-1L, 0L, 2L}) {
        Mask mask = {.seqlen_q = 13, .seqlen_k = 11, .left = left, .right = right, .valid_k = 9};
        if (blocks) mask.blocks = {.visible = pattern, .block_q = 5, .block_k = 4, .blocks_k = 3};
        const Range rows = {4, 12}, keys = {2, 11};
        alignas(64) float scores[9 * 16];
        std::fill(std::begin(scores), std::end(scores), 1.0f);
        const Executor executor(supported_tile_ops().front());
        executor.hide(mask, {.tile = {.data = scores, .rows = 9, .columns = 8, .ld = 16},
                             .rows = rows,
                             .keys = keys,
                             .orientation = Orientation::keys_by_rows});
        for (i64 c = keys.begin; c < keys.end; ++c) {
          for (i64 r = rows.begin; r < rows.end; ++r) {
            EXPECT_EQ(scores[(c - keys.begin) * 16 + r - rows.begin],
                      is_visible(mask, r, c) ? 1.0f : -kInfinity)
                << "row " << r << " key " << c << " window " << left << ":" << right;
          }
        }
        for (i64 r = 0; r < mask.seqlen_q; ++r) {
          alignas(64) float row[16];
          std::fill(std::begin(row), std::end(row), 1.0f);
          executor.hide(mask, {.tile = {.data = row, .rows = 1, .columns = 11, .ld = 16},
                               .rows = {r, r + 1},
                               .keys = {0, 11}});
          for (i64 c = 0; c < 11; ++c) {
            EXPECT_EQ(row[c], is_visible(mask, r, c) ? 1.0f : -kInfinity) << r << " " << c;
          }
        }
      }
    }
  }
}

TEST(Executor, FinishScalesRowsAndLeavesEmptyOnesZero) {
  alignas(64) float accumulator[2 * 16] = {};
  accumulator[0] = 6.0f;
  accumulator[16] = 3.0f;
  float row_max[16] = {2.0f, -kInfinity};
  float row_sum[16] = {3.0f, 0.0f};
  const Executor executor(supported_tile_ops().front());
  executor.finish_rows({.data = accumulator, .rows = 2, .columns = 2, .ld = 16},
                       {.max = row_max, .sum = row_sum});
  EXPECT_FLOAT_EQ(accumulator[0], 2.0f);
  EXPECT_FLOAT_EQ(accumulator[16], 1.0f);
  EXPECT_FLOAT_EQ(row_max[0], static_cast<float>(2.0 * std::log(2.0) + std::log(3.0)));
  EXPECT_EQ(accumulator[1], 0.0f);
  EXPECT_EQ(row_max[1], -kInfinity);
}

TEST(Executor, VisitCountsClassesAndWholeTiles) {
  Executor executor(nullptr);
  const Tiling tiling = {.block_m = 32, .block_n = 16};
  executor.visit(TileClass::full, tiling, 8);
  executor.visit(TileClass::partial, tiling, 8);
  executor.visit(TileClass::empty, tiling, 8);
  executor.skip(5);
  EXPECT_EQ(executor.traffic().tiles, (TileCounts{.empty = 6, .partial = 1, .full = 1}));
  EXPECT_EQ(executor.traffic().executed_flops, 2 * 4 * 32 * 16 * 8);
}

TEST(TileCarver, StatesWhatItHandsOut) {
  alignas(64) float storage[1024];
  TileCarver dry(nullptr);
  TileCarver real(storage);
  for (TileCarver* carver : {&dry, &real}) {
    carver->tile(3, 17);
    carver->tile(1, 5);
  }
  EXPECT_EQ(dry.bytes(), real.bytes());
  EXPECT_EQ(dry.bytes(), (3 * 32 + 16) * sizeof(float));
  TileCarver again(storage);
  EXPECT_EQ(again.tile(3, 17).data, storage);
  EXPECT_EQ(again.tile(1, 5).data, storage + 3 * 32);
}

}  // namespace
}  // namespace attnlab::cpu
