// Tests when v3's thread blocks claim their work items, by the emulated GPU, which says in which
// order a block did things: a block that claims early holds what another could begin.
#include <fmt/format.h>

#include <exception>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "kernels/v3/cuda_grid.h"
#include "kernels/v3/cuda_test_items.h"
#include "kernels/v3/cuda_tiles.h"
#include "tests/emulator/trace.h"
#include "tests/gpu/emulated.h"
#include "tests/gpu/forward_case.h"
#include "tests/gpu/forward_launch.h"

namespace attnlab {
namespace {

using emulator::Event;

// Returns the numbers of tiles of all work items, in the order in which they are handed out.
std::vector<i64> tiles_of(const Problem& problem, const v3::ForwardConfig& config) {
  const std::vector<u8> pattern = make_block_pattern(problem);
  const BlockPattern blocks = view_block_pattern(problem, pattern.data());
  const WorkGrid grid = v3::forward_grid(problem, config);
  std::vector<i64> tiles;
  for (i64 index = 0; index < work_items(grid); ++index) {
    const WorkItem item = work_item(grid, index);
    tiles.push_back(v3::num_tiles(make_mask(problem, item.batch, blocks), config, item.block));
  }
  return tiles;
}

class V3Claims : public GpuTest, public testing::WithParamInterface<ForwardCase> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    begin_ = emulated<void()>("attnlab_emulator_begin_trace");
    end_ = emulated<const Event*(u64*)>("attnlab_emulator_end_trace");
    if (begin_ == nullptr || end_ == nullptr) {
      GTEST_SKIP() << "only the emulated GPU says in which order a block did things";
    }
  }

  // Returns what each block did: `stuck` says why the launch failed.
  std::map<u32, std::vector<Event>> run(const ForwardLaunch& launch, std::string& stuck) const {
    begin_();
    try {
      launch();
      runtime().synchronize();
    } catch (const std::exception& error) {
      stuck = error.what();
    }
    u64 count = 0;
    const Event* const events = end_(&count);
    std::map<u32, std::vector<Event>> by_block;
    for (u64 i = 0; i < count; ++i) by_block[events[i].block].push_back(events[i]);
    return by_block;
  }

  void (*begin_)() = nullptr;
  const Event* (*end_)(u64*) = nullptr;
};

// BlockWork is one block's work: its items, and the copies of K that it has started.
class BlockWork {
 public:
  BlockWork(const std::vector<i64>& tiles, bool asks_early, u32 block)
      : tiles_(tiles), asks_early_(asks_early), items_{block} {}

  void copy_keys() { ++keys_; }
  // Returns what is wrong about this claim, or nothing.
  std::string claim(u64 item) {
    std::string wrong;
    if (ended()) {
      wrong = "claims an item after the last";
    } else if (const i64 fewest = keys_of_all() - (asks_early_ && tiles_of_last() > 1 ? 1 : 0);
               keys_ < fewest) {
      wrong = fmt::format("claims item {} with {} of {} tiles of K under way", item, keys_,
                          keys_of_all());
    }
    items_.push_back(item);
    return wrong;
  }
  bool ended() const { return items_.back() >= tiles_.size(); }
  i64 keys() const { return keys_; }
  i64 keys_of_all() const {
    return std::accumulate(items_.begin(), items_.end(), i64{0}, [&](i64 sum, u64 item) {
      return sum + (item < tiles_.size() ? tiles_[item] : 0);
    });
  }
  const std::vector<u64>& items() const { return items_; }

 private:
  i64 tiles_of_last() const { return tiles_[items_.back()]; }

  const std::vector<i64>& tiles_;
  bool asks_early_;
  std::vector<u64> items_;
  i64 keys_ = 0;
};

// A block claims an item once the last K of the item in work is under way, or the last but one, and
// an item without tiles at once. All items are taken, each once.
TEST_P(V3Claims, ComeBehindTheLastKeysOfTheItemInWork) {
  const Implementation& v3 = v3_on_gpu();
  const Problem problem = problem_of(GetParam());
  const Config asked = config_of(GetParam());
  ASSERT_EQ(v3.unsupported(problem, asked, gpu()), "");
  const v3::ForwardConfig config = v3::forward_config_of(problem, asked);
  ASSERT_EQ(config.blocks, GetParam().consumers == 1 ? 3 : 1);
  const std::vector<i64> tiles = tiles_of(problem, config);
  const auto items = static_cast<i64>(tiles.size());
  const auto grid = static_cast<u32>(min(items, i64{gpu().multiprocessors} * config.blocks));

  const ForwardLaunch launch(v3, problem, asked);
  std::string stuck, wrong;
  const auto by_block = run(launch, stuck);
  EXPECT_EQ(stuck, "");

  std::multiset<u64> taken, all;
  for (u64 item = 0; item < tiles.size(); ++item) all.insert(item);
  for (u32 block = 0; block < grid; ++block) {
    BlockWork work(tiles, config.asks_early(), block);
    const auto found = by_block.find(block);
    ASSERT_NE(found, by_block.end()) << "block " << block << " did nothing";
    for (const Event& event : found->second) {
      if (event.kind == Event::Kind::count) {
        const std::string words = work.claim(grid + event.count);
        if (wrong.empty()) wrong = words;  // the first
      } else if (event.address == reinterpret_cast<u64>(launch.tensors().k)) {
        work.copy_keys();
      }
    }
    EXPECT_TRUE(work.ended()) << "block " << block;
    EXPECT_EQ(work.keys(), work.keys_of_all()) << "block " << block;
    for (const u64 item : work.items()) {
      if (item < tiles.size()) taken.insert(item);
    }
  }
  EXPECT_EQ(wrong, "");
  EXPECT_EQ(taken, all);
}

const ForwardCase kCases[] = {
    {.name = "one_tile", .consumers = 1, .seqlen_q = 64, .seqlen_k = 64},
    {.name = "a_few_tiles", .consumers = 1, .seqlen_q = 300, .seqlen_k = 300},
    {.name = "rows_that_see_nothing", .consumers = 1, .seqlen_q = 300, .seqlen_k = 100},
    {.name = "packed_0_and_1",
     .consumers = 1,
     .seqlen_q = 200,
     .seqlen_k = 200,
     .slices = 6,
     .queries = {1, 0, 200, 1, 70},
     .keys = {1, 1, 200, 0, 0}},
    {.name = "fewer_items_than_blocks",
     .consumers = 1,
     .seqlen_q = 130,
     .seqlen_k = 130,
     .slices = 2},
    {.name = "items_133", .consumers = 1, .seqlen_q = 64, .seqlen_k = 200, .slices = 133},
    {.name = "pattern",
     .consumers = 1,
     .seqlen_q = 400,
     .seqlen_k = 400,
     .slices = 4,
     .mask = "blocks:random:30:64x64"},
    {.name = "alone_one_tile", .consumers = 2, .seqlen_q = 128, .seqlen_k = 128},
    {.name = "alone_a_few_tiles", .consumers = 2, .seqlen_q = 400, .seqlen_k = 400, .slices = 8},
    {.name = "alone_rows_that_see_nothing", .consumers = 2, .seqlen_q = 400, .seqlen_k = 100},
    {.name = "alone_packed_0_and_1",
     .consumers = 2,
     .seqlen_q = 300,
     .seqlen_k = 300,
     .slices = 6,
     .queries = {1, 0, 300, 1, 70},
     .keys = {1, 1, 300, 0, 0}},
    {.name = "alone_fewer_items_than_blocks",
     .consumers = 2,
     .seqlen_q = 200,
     .seqlen_k = 200,
     .slices = 1},
    {.name = "alone_items_133", .consumers = 2, .seqlen_q = 64, .seqlen_k = 300, .slices = 133},
    {.name = "no_producer_a_few_tiles",
     .consumers = 2,
     .seqlen_q = 400,
     .seqlen_k = 400,
     .slices = 8,
     .producer = 0},
    {.name = "no_producer_rows_that_see_nothing",
     .consumers = 2,
     .seqlen_q = 400,
     .seqlen_k = 100,
     .producer = 0}};

INSTANTIATE_TEST_SUITE_P(Items, V3Claims, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace attnlab
