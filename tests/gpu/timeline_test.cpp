// Tests the timelines of v3's passes: they have every work item of the schedule once, in the order
// in which an item goes through a block. It runs on a real GPU, too.
#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/shared/timeline.h"
#include "kernels/v3/cuda_grid.h"
#include "kernels/v3/cuda_test_items.h"
#include "kernels/v3/cuda_tiles.h"
#include "tests/gpu/backward_launch.h"
#include "tests/gpu/forward_case.h"

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

// Launches v3 on `tensors` twice and returns its timeline of the second launch.
std::vector<TimelineItem> timeline_of(const Problem& problem, const Config& asked,
                                      const Tensors& tensors) {
  const Implementation& v3 = v3_on_gpu();
  std::vector<TimelineItem> items(static_cast<std::size_t>(v3.timeline_items(problem, asked)));
  const u64 bytes = items.size() * sizeof(TimelineItem);
  Runtime& runtime = runtime_of(gpu());
  Arena arena(runtime);
  const Arena::Buffer buffer = arena.allocate("timeline", bytes);
  runtime.fill(buffer.get(), 0, bytes);
  PreparedKernel* const prepared =
      v3.prepare_timeline(problem, asked, gpu(), static_cast<TimelineItem*>(buffer.get()));
  for (int i = 0; i < 2; ++i) v3.launch(prepared, tensors, runtime.queue());
  runtime.read(items.data(), buffer.get(), bytes);
  v3.release(prepared);
  EXPECT_EQ(arena.restore_guards(), "");
  return items;
}

// `has_tiles` says it of an item by its number. Returns how many blocks, or places of blocks, there
// were.
template <class HasTiles>
std::size_t expect_each_once_and_in_order(const std::vector<TimelineItem>& items,
                                          const HasTiles& has_tiles) {
  std::set<u32> blocks;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const TimelineItem& item = items[i];
    EXPECT_EQ(item.times, 2U) << "item " << i;
    EXPECT_LT(item.multiprocessor, static_cast<u32>(gpu().multiprocessors));
    const bool has_some = has_tiles(static_cast<i64>(i));
    EXPECT_EQ(out_of_order(item, has_some, &Moment::nanoseconds), "") << "item " << i;
    EXPECT_EQ(out_of_order(item, has_some, &Moment::cycles), "") << "item " << i;
    EXPECT_GT(item.describe_cycles, 0u);
    blocks.insert(item.block);
  }
  return blocks.size();
}

class V3Timeline : public GpuTest, public testing::WithParamInterface<ForwardCase> {};

TEST_P(V3Timeline, HasEachItemOnceAndInOrder) {
  const Problem problem = problem_of(GetParam());
  const Config asked = config_of(GetParam());
  const v3::ForwardConfig config = v3::forward_config_of(problem, asked);
  const WorkGrid grid = v3::forward_grid(problem, config);
  const ForwardLaunch launch(v3_on_gpu(), problem, asked);
  const std::vector<TimelineItem> items = timeline_of(problem, asked, launch.tensors());
  ASSERT_EQ(static_cast<i64>(items.size()), work_items(grid));
  const Mask mask = make_mask(problem, 0, {});
  const std::size_t blocks = expect_each_once_and_in_order(items, [&](i64 item) {
    return v3::num_tiles(mask, config, work_item(grid, item).block) > 0;
  });
  const i64 places = i64{gpu().multiprocessors} * config.blocks;
  EXPECT_EQ(blocks, static_cast<std::size_t>(min(work_items(grid), places)));
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

struct BackwardCase {
  const char* name;
  i64 head_dim;
  i64 seqlen_q;
  i64 seqlen_k;
  const char* mask = "causal";
  i64 deterministic = 0;
};

void PrintTo(const BackwardCase& what, std::ostream* stream) { *stream << what.name; }

class V3BackwardTimeline : public GpuTest, public testing::WithParamInterface<BackwardCase> {};

TEST_P(V3BackwardTimeline, HasEachItemOnceAndInOrder) {
  const BackwardCase& what = GetParam();
  const Problem problem = {.pass = Pass::bwd,
                           .dtype = Dtype::f16,
                           .num_heads_q = 6,
                           .num_heads_kv = 3,
                           .seqlen_q = what.seqlen_q,
                           .seqlen_k = what.seqlen_k,
                           .head_dim = what.head_dim,
                           .mask = parse_mask(what.mask)};
  Config asked = default_config(v3_on_gpu());
  asked.set("deterministic", what.deterministic);
  const v3::BackwardConfig config = v3::backward_config_of(problem, asked);
  const SectionedGrid grid = v3::key_grid(problem, config);
  const BackwardLaunch launch(v3_on_gpu(), problem, asked);
  const std::vector<TimelineItem> items = timeline_of(problem, asked, launch.tensors());
  ASSERT_EQ(static_cast<i64>(items.size()), work_items(grid));
  const Mask mask = make_mask(problem, 0, {});
  bool all_have_some = true;
  const std::size_t places = expect_each_once_and_in_order(items, [&](i64 item) {
    const Range keys = tile_range(work_item(grid, item).block, config.block_n, mask.seqlen_k);
    const bool has_some = !m_block_range(mask, keys, config.block_m).empty();
    all_have_some = all_have_some && has_some;
    return has_some;
  });
  EXPECT_GT(places, 0U);
  EXPECT_LE(places, static_cast<std::size_t>(gpu().multiprocessors));
  EXPECT_EQ(all_have_some, what.seqlen_q == what.seqlen_k);
}

const BackwardCase kBackwardCases[] = {
    {.name = "d64", .head_dim = 64, .seqlen_q = 300, .seqlen_k = 300},
    {.name = "keys_that_no_row_sees",
     .head_dim = 64,
     .seqlen_q = 100,
     .seqlen_k = 400,
     .mask = "window:50:0"},
    {.name = "fixed_order", .head_dim = 64, .seqlen_q = 300, .seqlen_k = 300, .deterministic = 1},
    {.name = "d128", .head_dim = 128, .seqlen_q = 300, .seqlen_k = 300},
    {.name = "d256", .head_dim = 256, .seqlen_q = 200, .seqlen_k = 200}};

INSTANTIATE_TEST_SUITE_P(Items, V3BackwardTimeline, testing::ValuesIn(kBackwardCases),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace attnlab
