#include "kernels/cpu/dq_sums.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

namespace attnlab::cpu {
namespace {

constexpr i64 kBlockM = 16, kItemKeys = 8, kHeadDim = 3;

// Slice is a head of 40 rows and 64 keys; row r sees the keys up to r + 24 (causal, bottom-right).
struct Slice {
  Slice() {
    fast.fill(kNaN);
    for (i64 i = 0; i < problem.elements_q(); ++i) {
      o[static_cast<std::size_t>(i)] = 0.25f * static_cast<float>(i % 7) - 0.5f;
      dout[static_cast<std::size_t>(i)] = 0.5f * static_cast<float>(i % 5) - 1.0f;
    }
  }

  DqSums make_sums(DqSums::Order order) {
    return {problem, {.block_m = kBlockM, .item_keys = kItemKeys, .order = order}, hbm.data()};
  }

  DqSums::RowTiles carve() {
    TileCarver carver(fast.data());
    return {.sO = carver.tile(kBlockM, kHeadDim),
            .sDO = carver.tile(kBlockM, kHeadDim),
            .sDQ = carver.tile(kBlockM, kHeadDim),
            .sDelta = carver.tile(1, kBlockM)};
  }

  float sum_of(i64 row) const { return dq[static_cast<std::size_t>(row * kHeadDim)]; }

  Problem problem = {.seqlen_q = 40,
                     .seqlen_k = 64,
                     .head_dim = kHeadDim,
                     .mask = parse_mask("causal"),
                     .softmax_scale = 0.5};
  Shape shape = make_shape(problem);
  std::vector<float> o = std::vector<float>(static_cast<std::size_t>(problem.elements_q()));
  std::vector<float> dout = o, dq = o;
  alignas(64) std::array<float, 4096> fast;
  std::vector<float> hbm = std::vector<float>(DqSums::bytes(problem) / sizeof(float), kNaN);
  std::vector<BatchEntry> entries = make_entries(problem, nullptr);
  Tensors tensors = {.o = o.data(), .dout = dout.data(), .dq = dq.data()};
  SliceTensors slice = {problem, shape, entries[0], tensors, 0, 0};
  Executor executor{supported_tile_ops().front()};
  static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
};

// Returns what work item `item` adds to every element: sizes differ so much that the order shows.
float part(i64 item) { return item % 2 == 0 ? 1.0f : 0x1.8p-24f; }

TEST(DqSums, DeltaIsTheDotOfOAndItsGradient) {
  Slice of;
  DqSums sums = of.make_sums(DqSums::Order::any);
  for (i64 m_block = 0; m_block < 3; ++m_block) {
    sums.prepare_rows(of.slice, m_block, of.carve(), of.executor);
  }
  for (i64 row = 0; row < 40; ++row) {
    float want = 0.0f;
    for (i64 x = 0; x < kHeadDim; ++x) {
      const auto i = static_cast<std::size_t>(row * kHeadDim + x);
      want += of.o[i] * of.dout[i];
    }
    const GlobalRows delta = sums.delta(of.slice, {row, row + 1});
    EXPECT_EQ(static_cast<const float*>(delta.data)[delta.offset], want);  // exact in fp32
  }
}

// Two workers take the items by ascending keys. Ordered by keys, the sum is that of a plain loop,
// bit by bit; a row tile waits only for items whose keys it sees.
TEST(DqSums, ByKeysIsOneOrderOfAddition) {
  for (int launch = 0; launch < 20; ++launch) {
    Slice of;
    DqSums sums = of.make_sums(DqSums::Order::by_keys);
    for (i64 m_block = 0; m_block < 3; ++m_block) {
      sums.prepare_rows(of.slice, m_block, of.carve(), of.executor);
    }
    std::atomic<i64> next = 0;
    const auto work = [&] {
      Executor executor(supported_tile_ops().front());
      alignas(64) std::array<float, 1024> memory;
      TileCarver carver(memory.data());
      const Tile tile = carver.tile(kBlockM, kHeadDim);
      for (i64 item = next++; item < 8; item = next++) {
        executor.fill(tile, part(item));
        if (item == 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(2));  // others are early
        const Range keys = tile_range(item, kItemKeys, 64);
        const Range m_blocks = m_block_range(of.slice.mask(), keys, kBlockM);
        for (i64 m = m_blocks.begin; m < m_blocks.end; ++m) {
          sums.add(of.slice, m, item, tile, executor);
        }
      }
    };
    {
      const std::jthread other(work);
      work();
    }
    for (i64 m_block = 0; m_block < 3; ++m_block) {
      sums.finish_rows(of.slice, m_block, of.carve(), of.executor);
    }
    for (i64 row = 0; row < 40; ++row) {
      const i64 last_row = min<i64>(40, round_up(row + 1, kBlockM)) - 1;  // of its tile
      float want = 0.0f;
      for (i64 item = 0; item * kItemKeys <= last_row + 24; ++item) want += part(item);
      ASSERT_EQ(of.sum_of(row), 0.5f * want) << "row " << row;
    }
  }
}

}  // namespace
}  // namespace attnlab::cpu
