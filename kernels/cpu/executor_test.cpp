#include "kernels/cpu/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/shared/convert.h"
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

TEST(Executor, StorageTypesAreDecodedEncodedAndCounted) {
  const float values[] = {1.0f, -0.1f, 65520.0f, 1e-7f, 3.0e38f};
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    alignas(64) float storage[2 * 16] = {};
    for (i64 r = 0; r < 2; ++r) std::copy_n(values, 5, storage + r * 16);
    const Tile tile = {.data = storage, .rows = 2, .columns = 5, .ld = 16};
    std::vector<u32> memory(32, 0xABABABAB);
    const GlobalRows rows = {.operand = Operand::v,
                             .dtype = dtype,
                             .data = memory.data(),
                             .offset = 3,
                             .row_stride = 7,
                             .rows = 2,
                             .columns = 5};
    Executor executor(supported_tile_ops().front());
    executor.store(tile, rows);
    EXPECT_EQ(executor.traffic()[Operand::v].write_bytes, 2 * 5 * size_bytes(dtype));
    EXPECT_EQ(executor.traffic().read_bytes(), 0);
    const auto* bytes = reinterpret_cast<const u8*>(memory.data());
    const i64 first = 3 * size_bytes(dtype), row_bytes = 5 * size_bytes(dtype);
    const i64 second = first + 7 * size_bytes(dtype);
    for (i64 i = 0; i < 32 * 4; ++i) {
      const bool is_row =
          (i >= first && i < first + row_bytes) || (i >= second && i < second + row_bytes);
      if (is_row) continue;
      EXPECT_EQ(bytes[i], 0xAB) << "byte " << i << " is not of the rows";
    }
    std::fill(std::begin(storage), std::end(storage), NAN);
    executor.load(rows, tile);
    EXPECT_EQ(executor.traffic()[Operand::v].read_bytes, 2 * 5 * size_bytes(dtype));
    for (i64 i = 0; i < 32; ++i) {
      float want = i % 16 < 5 ? values[i % 16] : 0.0f;
      if (dtype == Dtype::f16) want = f32_from_f16(f16_from_f32(want));
      if (dtype == Dtype::bf16) want = f32_from_bf16(bf16_from_f32(want));
      EXPECT_EQ(storage[i], want) << to_string(dtype) << " " << i;
    }
  }
}

TEST(Executor, AccumulateAddsAndCountsBothWays) {
  std::vector<float> memory(40, 1.0f);
  alignas(64) float storage[2 * 32];
  for (int i = 0; i < 64; ++i) storage[i] = static_cast<float>(i);
  Executor executor(supported_tile_ops().front());
  executor.accumulate({.data = storage, .rows = 2, .columns = 17, .ld = 32},
                      {.operand = Operand::dq,
                       .data = memory.data(),
                       .offset = 2,
                       .row_stride = 20,
                       .rows = 2,
                       .columns = 17});
  EXPECT_EQ(executor.traffic()[Operand::dq],
            (OperandTraffic{.read_bytes = 2 * 17 * 4, .write_bytes = 2 * 17 * 4}));
  for (i64 i = 0; i < 40; ++i) {
    const i64 row = i / 20, column = i % 20 - 2;
    const bool is_inside = column >= 0 && column < 17;
    EXPECT_EQ(memory[static_cast<std::size_t>(i)],
              is_inside ? 1.0f + static_cast<float>(row * 32 + column) : 1.0f)
        << i;
  }
}

TEST(Executor, CountOnlyTouchesNoMemory) {
  Executor executor(nullptr);
  const Tile nowhere = {.rows = 8, .columns = 8, .ld = 16};
  const ScoreTile scores = {.tile = nowhere, .rows = {0, 8}, .keys = {0, 8}};
  const Dropout dropout = make_dropout(0.5, 1);
  const GlobalRows rows = {.operand = Operand::q, .row_stride = 8, .rows = 8, .columns = 8};
  GlobalRows halves = rows;
  halves.dtype = Dtype::f16;
  halves.operand = Operand::k;
  executor.load(rows, nowhere);
  executor.store(nowhere, rows);
  executor.load(halves, nowhere);
  executor.store(nowhere, halves);
  executor.accumulate(nowhere, {.operand = Operand::dq, .rows = 8, .columns = 8});
  const Traffic counted = executor.traffic();
  EXPECT_EQ(counted[Operand::q], (OperandTraffic{.read_bytes = 256, .write_bytes = 256}));
  EXPECT_EQ(counted[Operand::k], (OperandTraffic{.read_bytes = 128, .write_bytes = 128}));
  EXPECT_EQ(counted[Operand::dq], (OperandTraffic{.read_bytes = 256, .write_bytes = 256}));

  executor.multiply(nowhere, nowhere, nowhere);
  executor.transpose(nowhere, nowhere);
  executor.scale(nowhere, 2.0f);
  executor.fill(nowhere, 1.0f);
  executor.round(nowhere, Dtype::bf16);
  executor.hide({.seqlen_q = 8, .seqlen_k = 8, .right = 0, .valid_k = 8}, scores);
  executor.drop(dropout, 0, scores);
  executor.softmax_step(nowhere, 1.0f, {});
  executor.finish_rows(nowhere, {}, {});
  executor.softmax_row(nowhere);
  executor.recompute_p(nowhere, 1.0f, {});
  executor.mark_dropped(dropout, 0, scores);
  executor.score_gradient(nowhere, nowhere, nullptr, 1.0f);
  executor.clear_dropped(nowhere);
  executor.row_dots(nowhere, nowhere, nullptr);
  EXPECT_EQ(executor.traffic(), counted) << "a step on tiles was counted";
}

TEST(Executor, RoundsToTheStorageType) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    alignas(64) float storage[2 * 32];
    for (int i = 0; i < 64; ++i) storage[i] = 1.0f + static_cast<float>(i) / 3000.0f;
    Executor(supported_tile_ops().front())
        .round({.data = storage, .rows = 2, .columns = 17, .ld = 32}, dtype);
    for (i64 i = 0; i < 64; ++i) {
      float want = 1.0f + static_cast<float>(i) / 3000.0f;
      if (dtype == Dtype::f16) want = f32_from_f16(f16_from_f32(want));
      if (dtype == Dtype::bf16) want = f32_from_bf16(bf16_from_f32(want));
      if (i % 32 >= 17) continue;  // padding
      EXPECT_EQ(storage[i], want) << to_string(dtype) << " " << i;
    }
  }
}

// Both ways to drop, in both orientations, agree with is_kept; marking first and clearing later is
// dropping.
TEST(Executor, DropsByPositionAtOnceOrInTwoSteps) {
  const Dropout dropout = make_dropout(0.4, 99);
  constexpr i64 kSlice = 6;
  const Range rows = {13, 29}, keys = {30, 50};
  for (const Orientation orientation : {Orientation::rows_by_keys, Orientation::keys_by_rows}) {
    const bool by_rows = orientation == Orientation::rows_by_keys;
    std::vector<float> dropped(20 * 32, 0.5f), marked(20 * 32, 0.5f);
    ScoreTile p = {.tile = {.rows = by_rows ? 16 : 20, .columns = by_rows ? 20 : 16, .ld = 32},
                   .rows = rows,
                   .keys = keys,
                   .orientation = orientation};
    const Executor executor(supported_tile_ops().front());
    const auto expect_dropped = [&](const std::vector<float>& values, float as) {
      for (i64 row = rows.begin; row < rows.end; ++row) {
        for (i64 key = keys.begin; key < keys.end; ++key) {
          const i64 r = row - rows.begin, k = key - keys.begin;
          EXPECT_EQ(values[static_cast<std::size_t>(by_rows ? r * 32 + k : k * 32 + r)],
                    is_kept(dropout, kSlice, row, key) ? 0.5f : as)
              << "row " << row << " key " << key;
        }
      }
    };
    p.tile.data = dropped.data();
    executor.drop(dropout, kSlice, p);
    expect_dropped(dropped, 0.0f);
    p.tile.data = marked.data();
    executor.mark_dropped(dropout, kSlice, p);
    expect_dropped(marked, -0.5f);
    executor.clear_dropped(p.tile);
    expect_dropped(marked, 0.0f);
  }
}

// Takes the backward's steps on a row whose last key is dropped: S = (0, 0), so P = 1/2.
TEST(Executor, BackwardStepsOfARowByHand) {
  const Executor executor(supported_tile_ops().front());
  alignas(64) float scores[16] = {0.0f, 0.0f, -kInfinity};
  const Tile p = {.data = scores, .rows = 1, .columns = 3, .ld = 16};
  float row_max = 0.0f, row_sum = 2.0f;
  executor.recompute_p(p, kLog2E, {.max = &row_max, .sum = &row_sum});
  EXPECT_FLOAT_EQ(scores[0], 0.5f);
  EXPECT_FLOAT_EQ(scores[1], 0.5f);
  EXPECT_EQ(scores[2], 0.0f);

  alignas(64) float o[16] = {1.0f, 2.0f, NAN}, dout[16] = {3.0f, -0.5f, NAN};
  float delta = 0.0f;
  executor.row_dots({.data = o, .rows = 1, .columns = 2, .ld = 16},
                    {.data = dout, .rows = 1, .columns = 2, .ld = 16}, &delta);
  EXPECT_FLOAT_EQ(delta, 2.0f);

  scores[1] = -scores[1];  // dropped
  alignas(64) float gradients[16] = {7.0f, 9.0f, 1.0f};
  executor.score_gradient(p, {.data = gradients, .rows = 1, .columns = 3, .ld = 16}, &delta, 2.0f);
  EXPECT_FLOAT_EQ(gradients[0], 0.5f * (2.0f * 7.0f - 2.0f));
  EXPECT_FLOAT_EQ(gradients[1], 0.5f * (0.0f - 2.0f));
  EXPECT_EQ(gradients[2], 0.0f);
  executor.clear_dropped(p);
  EXPECT_FLOAT_EQ(scores[0], 0.5f);
  EXPECT_EQ(scores[1], 0.0f);
}

TEST(Executor, ScaleMultipliesATile) {
  std::vector<float> values(2 * 16, 3.0f);
  Executor(supported_tile_ops().front())
      .scale({.data = values.data(), .rows = 2, .columns = 5, .ld = 16}, -0.5f);
  for (const i64 i : {0, 4, 16, 20}) EXPECT_EQ(values[static_cast<std::size_t>(i)], -1.5f);
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
                       {.max = row_max, .sum = row_sum}, Shape(), 1.5f);
  EXPECT_FLOAT_EQ(accumulator[0], 1.5f * 2.0f);
  EXPECT_FLOAT_EQ(accumulator[16], 1.5f * 1.0f);
  EXPECT_FLOAT_EQ(row_max[0], static_cast<float>(2.0 * std::log(2.0) + std::log(3.0)));
  EXPECT_EQ(accumulator[1], 0.0f);
  EXPECT_EQ(row_max[1], -kInfinity);
}

TEST(Executor, VisitCountsClassesAndWholeTiles) {
  Executor executor(nullptr);
  const Tiling tiling = {.block_m = 32, .block_n = 16};
  executor.visit(TileClass::full, tiling, 8, kForwardProducts);
  executor.visit(TileClass::partial, tiling, 8, kForwardProducts);
  executor.visit(TileClass::empty, tiling, 8, kForwardProducts);
  executor.skip(5);
  EXPECT_EQ(executor.traffic().tiles, (TileCounts{.empty = 6, .partial = 1, .full = 1}));
  EXPECT_EQ(executor.traffic().executed_flops, 2 * 4 * 32 * 16 * 8);
  executor.visit(TileClass::full, tiling, 8, 5);  // backward: five products
  executor.visit(TileClass::empty, tiling, 8, 5);
  EXPECT_EQ(executor.traffic().executed_flops, (2 * 4 + 2 * 5) * 32 * 16 * 8);
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
