// Tests the timeline of v3's forward: it has every work item of the schedule once, in the order in
// which an item goes through a block. It runs on a real GPU, too.
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/shared/timeline.h"
#include "kernels/v3/cuda_grid.h"
#include "kernels/v3/cuda_test_items.h"
#include "kernels/v3/cuda_tiles.h"
#include "tests/gpu/forward_case.h"
#include "tests/gpu/forward_launch.h"

namespace attnlab {
namespace {

// Returns what is wrong with the moments of an item, by one of its two clocks, or nothing.
std::string out_of_order(const TimelineItem& item, bool has_tiles, u64 Moment::*clock) {
  const u64 claimed = item.claimed.*clock, published = item.published.*clock,
            first_k = item.first_k.*clock, first_product = item.first_product.*clock,
            last_store = item.last_store.*clock;
  const bool fits =
      has_tiles ? published <= first_k && first_k <= first_product && first_product <= last_store
                : first_k == 0 && first_product == 0 && published <= last_store;
  if (claimed != 0 && claimed <= published && fits) return "";
  return fmt::format("claimed {}, published {}, first K {}, first product {}, last store {}",
                     claimed, published, first_k, first_product, last_store);
}

class V3Timeline : public GpuTest, public testing::WithParamInterface<ForwardCase> {};

TEST_P(V3Timeline, HasEachItemOnceAndInOrder) {
  const Implementation& v3 = v3_on_gpu();
  const Problem problem = problem_of(GetParam());
  const Config asked = config_of(GetParam());
  const v3::ForwardConfig config = v3::forward_config_of(problem, asked);
  const WorkGrid grid = v3::forward_grid(problem, config);
  ASSERT_EQ(v3.timeline_items(problem, asked), work_items(grid));

  std::vector<TimelineItem> items(static_cast<std::size_t>(work_items(grid)));
  const u64 bytes = items.size() * sizeof(TimelineItem);
  Arena arena(runtime());
  const Arena::Buffer buffer = arena.allocate("timeline", bytes);
  runtime().fill(buffer.get(), 0, bytes);
  ForwardLaunch launch(v3, problem, asked);
  PreparedKernel* const prepared =
      v3.prepare_timeline(problem, asked, gpu(), static_cast<TimelineItem*>(buffer.get()));
  constexpr u32 kLaunches = 2;
  for (u32 i = 0; i < kLaunches; ++i) v3.launch(prepared, launch.tensors(), runtime().queue());
  runtime().read(items.data(), buffer.get(), bytes);
  v3.release(prepared);
  EXPECT_EQ(arena.restore_guards(), "");

  const Mask mask = make_mask(problem, 0, {});
  std::set<u32> blocks;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const TimelineItem& item = items[i];
    EXPECT_EQ(item.times, kLaunches) << "item " << i;
    EXPECT_LT(item.multiprocessor, static_cast<u32>(gpu().multiprocessors));
    const i64 block = work_item(grid, static_cast<i64>(i)).block;
    const bool has_tiles = v3::num_tiles(mask, config, block) > 0;
    EXPECT_EQ(out_of_order(item, has_tiles, &Moment::nanoseconds), "") << "item " << i;
    EXPECT_EQ(out_of_order(item, has_tiles, &Moment::cycles), "") << "item " << i;
    EXPECT_GT(item.describe_cycles, 0u);
    blocks.insert(item.block);
  }
  const i64 places = i64{gpu().multiprocessors} * config.blocks;
  EXPECT_EQ(blocks.size(), static_cast<std::size_t>(min(work_items(grid), places)));
}

const ForwardCase kCases[] = {
    {.name = "three_blocks", .consumers = 1, .seqlen_q = 300, .seqlen_k = 300, .slices = 6},
    {.name = "static_stride",
     .consumers = 1,
     .seqlen_q = 300,
     .seqlen_k = 300,
     .slices = 6,
     .mask = "none"},
    {.name = "rows_that_see_nothing",
     .consumers = 2,
     .seqlen_q = 400,
     .seqlen_k = 100,
     .slices = 6},
    {.name = "no_producer",
     .consumers = 2,
     .seqlen_q = 400,
     .seqlen_k = 400,
     .slices = 6,
     .producer = 0}};

INSTANTIATE_TEST_SUITE_P(Items, V3Timeline, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace attnlab
