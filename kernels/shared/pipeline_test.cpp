#include "kernels/shared/pipeline.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

// Returns the state after n stages, as an index would give it.
constexpr PipelineState state_at(u32 start_phase, i64 n, i32 stages) {
  return {.stage = static_cast<i32>(n % stages),
          .phase = (start_phase + static_cast<u32>(n / stages)) % 2};
}

constexpr PipelineState advanced(PipelineState state, i64 n, i32 stages) {
  for (i64 i = 0; i < n; ++i) state.advance(stages);
  return state;
}

static_assert(advanced(consumer_start(), 7, 2) == PipelineState{.stage = 1, .phase = 1});
static_assert(advanced(producer_start(), 7, 2) == PipelineState{.stage = 1, .phase = 0});

TEST(Pipeline, StageAndPhaseFollowTheFill) {
  for (i32 stages = 1; stages <= 8; ++stages) {
    PipelineState consumer = consumer_start(), producer = producer_start();
    for (i64 fill = 0; fill < 40; ++fill) {
      EXPECT_EQ(consumer, state_at(0, fill, stages)) << "fill " << fill << " of " << stages;
      EXPECT_EQ(producer, state_at(1, fill, stages)) << "fill " << fill << " of " << stages;
      consumer.advance(stages);
      producer.advance(stages);
    }
  }
}

// The convention is right if, with barriers that count phases, a consumer passes exactly when its
// fill is complete and a producer exactly when the fill before has been read.
TEST(Pipeline, WaitsPassExactlyWhenTheyMay) {
  for (i32 stages = 1; stages <= 4; ++stages) {
    for (i64 fill = 0; fill < 4 * stages; ++fill) {
      const PipelineState consumer = advanced(consumer_start(), fill, stages);
      const PipelineState producer = advanced(producer_start(), fill, stages);
      const u32 earlier = static_cast<u32>(fill / stages);  // fills of this stage before this one
      EXPECT_FALSE(phase_complete(earlier % 2, consumer.phase)) << fill;
      EXPECT_TRUE(phase_complete((earlier + 1) % 2, consumer.phase)) << fill;
      EXPECT_TRUE(phase_complete(earlier % 2, producer.phase)) << fill;  // all read, or none yet
      if (earlier == 0) continue;
      EXPECT_FALSE(phase_complete((earlier - 1) % 2, producer.phase)) << fill;
    }
  }
}

TEST(Pipeline, TheOrderGoesRound) {
  EXPECT_EQ(next_in_order(0, 2), 1);
  EXPECT_EQ(next_in_order(1, 2), 0);
  EXPECT_EQ(next_in_order(1, 3), 2);
  EXPECT_EQ(next_in_order(2, 3), 0);
}

}  // namespace
}  // namespace attnlab
