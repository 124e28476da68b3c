// Tests a run with a kernel's timeline: its launches take turns with those that are timed.
#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "harness/testing/test_run_case.h"
#include "kernels/api/timeline.h"

namespace attnlab {
namespace {

using Plain = Fake<Fault::none, 1000>;

constexpr std::int64_t kItems = 3;
TimelineItem* items_of_launches = nullptr;  // of the kernel that was prepared with a timeline
const PreparedKernel* with_timeline = nullptr;

std::int64_t timeline_items(const Problem&, const Config&) { return kItems; }

PreparedKernel* prepare_timeline(const Problem& problem, const Config& config, const Device& device,
                                 TimelineItem* items) {
  PreparedKernel* const prepared = Plain::prepare(problem, config, device);
  items_of_launches = items;
  with_timeline = prepared;
  return prepared;
}

PreparedKernel* cannot_prepare(const Problem&, const Config&, const Device&, TimelineItem*) {
  throw std::runtime_error("no memory for a timeline");
}

void launch(PreparedKernel* prepared, const Tensors& tensors, void* queue) {
  Plain::launch(prepared, tensors, queue);
  if (prepared != with_timeline) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a timeline costs time
  for (std::int64_t i = 0; i < kItems; ++i) {
    TimelineItem& item = items_of_launches[i];
    const auto at = 1000 * static_cast<std::uint64_t>(i + 1);
    ++item.times;
    item.claimed.nanoseconds = at;
    item.published.nanoseconds = at + 10;
    item.last_store.nanoseconds = at + 100;
  }
}

Implementation kernel_with_timeline() {
  Implementation kernel = *kernel_with<Fault::none>();
  kernel.launch = launch;
  kernel.prepare_timeline = prepare_timeline;
  kernel.timeline_items = timeline_items;
  return kernel;
}

TEST_F(RunCase, ATimelineIsOfLaunchesThatTakeTurnsWithTheTimedOnes) {
  const Implementation kernel = kernel_with_timeline();
  int calls = 0;
  context_.timeline = [&](const Record& record, std::span<const TimelineItem> items) {
    ++calls;
    ASSERT_EQ(items.size(), 3U);
    EXPECT_GE(items[2].times, 3U);  // there were as many rounds
    EXPECT_EQ(items[2].last_store.nanoseconds, 3100U);
    EXPECT_TRUE(record.time.has_value());
  };
  const Record record = run_one(&kernel);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  ASSERT_TRUE(record.timeline.has_value());
  EXPECT_EQ(record.timeline->items, 3);
  EXPECT_EQ(record.timeline->timed_median_s, record.time->median_s);
  EXPECT_GE(record.timeline->median_s, 0.002);
  // Two milliseconds are more than 1 % of what the loops take.
  EXPECT_NE(record.timeline->reason.find("more than 1 %"), std::string::npos)
      << record.timeline->reason;
  EXPECT_FALSE(record.timeline->idle_share_at_end.has_value());
}

TEST_F(RunCase, WithoutBeingAskedNoTimelineIsWritten) {
  const Implementation kernel = kernel_with_timeline();
  with_timeline = nullptr;
  EXPECT_FALSE(run_one(&kernel).timeline.has_value());
  EXPECT_EQ(with_timeline, nullptr);
}

TEST_F(RunCase, ATimelineThatCannotBePreparedFailsThePoint) {
  Implementation kernel = kernel_with_timeline();
  kernel.prepare_timeline = cannot_prepare;
  context_.timeline = [](const Record&, std::span<const TimelineItem>) {
    ADD_FAILURE() << "there is none";
  };
  const Record record = run_one(&kernel);
  EXPECT_EQ(record.status, Status::invalid);
  EXPECT_NE(record.reason.find("no memory for a timeline"), std::string::npos) << record.reason;
}

}  // namespace
}  // namespace attnlab
