// Tests the machinery of roles: barriers and rings work as they should, and each way to misuse them
// is found as what it is.
#include "kernels/cpu/roles.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace attnlab::cpu {
namespace {

TEST(Barrier, PhaseEndsWhenAllHaveArrived) {
  Barrier barrier(2);
  EXPECT_TRUE(barrier.passes(1));  // fresh: the phase before counts as ended
  EXPECT_FALSE(barrier.passes(0));
  barrier.arrive();
  EXPECT_FALSE(barrier.passes(0));
  barrier.arrive();
  EXPECT_TRUE(barrier.passes(0));
  EXPECT_FALSE(barrier.passes(1));
  barrier.arrive();
  barrier.arrive();
  EXPECT_TRUE(barrier.passes(1));
}

// Streams numbers through a ring, from one producer to two readers that add them up.
struct Stream {
  Stream(i32 stages, i64 length, const Probe& probe = {})
      : ring({.name = "numbers", .stages = stages, .readers = 2}, probe), count(length) {}

  Ring ring;
  i64 count;
  std::array<i64, Ring::kMaxStages> slots{};
  std::array<i64, 2> sums{};
};

Role produce(Stream& stream) {
  RingWriter out(stream.ring);
  for (i64 n = 1; n <= stream.count; ++n) {
    const i32 stage = co_await out.empty();
    stream.slots[static_cast<std::size_t>(stage)] = n * n;
    co_await settle();
    out.arrive_full();
  }
}

Role consume(Stream& stream, i32 reader) {
  RingReader in(stream.ring, reader);
  for (i64 n = 1; n <= stream.count; ++n) {
    const i32 stage = co_await in.full();
    co_await settle();
    stream.sums[static_cast<std::size_t>(reader)] += stream.slots[static_cast<std::size_t>(stage)];
    in.arrive_empty();
  }
}

void run(Stream& stream, u64 seed, const Probe& probe = {}, u64 item = 0) {
  NamedRole roles[] = {{"the producer", produce(stream)},
                       {"reader 0", consume(stream, 0)},
                       {"reader 1", consume(stream, 1)}};
  run_roles(roles, {.seed = seed, .item = item}, probe);
  stream.ring.expect_drained();
}

TEST(Roles, EveryInterleavingDeliversEveryFillToEveryReader) {
  for (i32 stages = 1; stages <= 4; ++stages) {
    for (u64 seed = 0; seed < 500; ++seed) {
      Stream stream(stages, 9);
      run(stream, seed);
      EXPECT_EQ(stream.sums[0], 285) << "seed " << seed;
      EXPECT_EQ(stream.sums[1], 285) << "seed " << seed;
    }
  }
}

std::vector<i32> trace_of(u64 seed, u64 item) {
  Probe probe;
  std::vector<i32> trace;
  probe.trace = &trace;
  Stream stream(2, 9);
  run(stream, seed, probe, item);
  return trace;
}

TEST(Roles, SeedAndItemFixTheInterleaving) {
  std::set<std::vector<i32>> traces;
  for (u64 seed = 0; seed < 20; ++seed) {
    for (u64 item = 0; item < 5; ++item) {
      EXPECT_EQ(trace_of(seed, item), trace_of(seed, item));
      traces.insert(trace_of(seed, item));
    }
  }
  EXPECT_EQ(traces.size(), 96u);  // round robin is the same for every item
  // All run to their first wait; the producer fills, alone until the fill is complete; reader 0.
  const std::vector<i32> begin = {0, 1, 2, 0, 0, 1};
  const std::vector<i32> round_robin = trace_of(0, 0);
  EXPECT_EQ(std::vector<i32>(round_robin.begin(), round_robin.begin() + 6), begin);
}

// Findings says what a planted fault is found as under many interleavings, or nothing.
struct Findings {
  std::set<FaultKind> kinds;
  int unnoticed = 0;
  std::string last;
};

Findings findings(Fault fault, i64 fill, i32 stages = 2) {
  const Probe probe = {.trace = nullptr, .ring = "numbers", .fault = fault, .fill = fill};
  Findings result;
  for (u64 seed = 0; seed < 300; ++seed) {
    Stream stream(stages, 9, probe);
    try {
      run(stream, seed, probe);
      ++result.unnoticed;
    } catch (const RoleFault& found) {
      result.kinds.insert(found.kind);
      result.last = found.what();
    }
  }
  return result;
}

using Kinds = std::set<FaultKind>;

TEST(RoleFaults, EarlyReleaseIsAnOverwrite) {
  const Findings found = findings(Fault::early_release, 3);
  EXPECT_EQ(found.kinds, Kinds{FaultKind::overwrite});
  EXPECT_GT(found.unnoticed, 0);  // a race: some interleavings are lucky
  EXPECT_LT(found.unnoticed, 300);
  EXPECT_EQ(found.last,
            "ring numbers, stage 1: writer 0 begins fill 5 while a reader still holds fill 3");
}

TEST(RoleFaults, DoubleReleaseIsAnOverwrite) {
  const Findings found = findings(Fault::double_release, 3);
  EXPECT_EQ(found.kinds, Kinds{FaultKind::overwrite});
  EXPECT_LT(found.unnoticed, 300);
}

// The stage is free for the producer before the slower reader has begun with it.
TEST(RoleFaults, DoubleReleaseAheadOfTheOtherReaderIsAnOverwrite) {
  const Probe probe = {
      .trace = nullptr, .ring = "numbers", .fault = Fault::double_release, .fill = 0};
  Stream stream(1, 9, probe);
  NamedRole roles[] = {{"the producer", produce(stream)}, {"reader 0", consume(stream, 0)}};
  try {
    run_roles(roles, {}, probe);
    FAIL();
  } catch (const RoleFault& fault) {
    EXPECT_EQ(fault.kind, FaultKind::overwrite);
    EXPECT_EQ(std::string(fault.what()),
              "ring numbers, stage 0: writer 0 begins fill 1 before everybody has read fill 0");
  }
}

TEST(RoleFaults, MissingArriveIsADeadlock) {
  const Findings found = findings(Fault::missing_arrive, 3);
  EXPECT_EQ(found.kinds, Kinds{FaultKind::deadlock});
  EXPECT_EQ(found.unnoticed, 0);
  EXPECT_EQ(found.last,
            "no role can go on: the producer waits for numbers empty 1; reader 0 waits for numbers "
            "full 1; reader 1 waits for numbers full 1.");
}

TEST(RoleFaults, WrongPhaseIsAStaleReadOrADeadlock) {
  const Findings found = findings(Fault::wrong_phase, 0);
  EXPECT_EQ(found.kinds, (Kinds{FaultKind::stale_read, FaultKind::deadlock}));
  EXPECT_EQ(found.unnoticed, 0);
}

TEST(RoleFaults, OneStageFewerIsAStaleRead) {
  EXPECT_EQ(findings(Fault::one_stage_fewer, 0, 3).kinds, Kinds{FaultKind::stale_read});
  EXPECT_EQ(findings(Fault::one_stage_fewer, 0, 3).unnoticed, 0);
  // Nine fills never reach a stage of eight a second time where the reader expects it.
  EXPECT_EQ(findings(Fault::one_stage_fewer, 0, 8).kinds, Kinds{FaultKind::stale_read});
}

Role write_once(Ring& ring) {
  RingWriter out(ring);
  co_await out.empty();
  out.arrive_full();
}

TEST(RoleFaults, UnreadFillIsFoundAtTheEnd) {
  Ring ring({.name = "R"});
  NamedRole roles[] = {{"the producer", write_once(ring)}};
  run_roles(roles, {});
  try {
    ring.expect_drained();
    FAIL();
  } catch (const RoleFault& fault) {
    EXPECT_EQ(fault.kind, FaultKind::unread);
  }
}

// Two writers of one fill: the reader sees it when both have arrived.
Role write_half(Ring& ring, i32 writer, i64& slot) {
  RingWriter out(ring, writer);
  for (int n = 0; n < 5; ++n) {
    co_await out.empty();
    slot += 1;
    co_await settle();
    out.arrive_full();
  }
}

Role read_whole(Ring& ring, const std::array<i64, 2>& slots) {
  RingReader in(ring);
  for (int n = 1; n <= 5; ++n) {
    co_await in.full();
    EXPECT_EQ(slots[0], n);
    EXPECT_EQ(slots[1], n);
    co_await settle();
    in.arrive_empty();
  }
}

TEST(Roles, AFillOfTwoWritersIsFullWhenBothHaveArrived) {
  for (u64 seed = 0; seed < 200; ++seed) {
    Ring ring({.name = "R", .stages = 1, .writers = 2});
    std::array<i64, 2> slots{};
    NamedRole roles[] = {{"writer 0", write_half(ring, 0, slots[0])},
                         {"writer 1", write_half(ring, 1, slots[1])},
                         {"the reader", read_whole(ring, slots)}};
    run_roles(roles, {.seed = seed});
    ring.expect_drained();
  }
}

Role pass_in_order(OrderBarrier& order_barrier, i32 consumer, std::vector<i32>& order) {
  for (int n = 0; n < 4; ++n) {
    co_await order_barrier.wait(consumer);
    order.push_back(consumer);
    co_await settle();
    order.push_back(consumer);
    order_barrier.arrive(consumer);
    co_await settle();
  }
}

TEST(OrderBarrier, ConsumersAlternateAndNeverOverlap) {
  for (u64 seed = 0; seed < 200; ++seed) {
    OrderBarrier order_barrier;
    std::vector<i32> order;
    NamedRole roles[] = {{"consumer 0", pass_in_order(order_barrier, 0, order)},
                         {"consumer 1", pass_in_order(order_barrier, 1, order)}};
    run_roles(roles, {.seed = seed});
    EXPECT_EQ(order, (std::vector<i32>{0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1}));
  }
}

}  // namespace
}  // namespace attnlab::cpu
