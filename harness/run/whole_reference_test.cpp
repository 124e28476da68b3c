#include "harness/run/whole_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "harness/plan/protocol.h"

namespace attnlab {
namespace {

Device hopper() { return {.backend = Backend::cuda, .compute_capability = 90}; }

// Makes a problem of the papers: 16384 tokens, hidden 2048.
Problem of_the_papers() {
  return {.pass = Pass::fwdbwd,
          .dtype = Dtype::f16,
          .num_heads_q = 16,
          .num_heads_kv = 16,
          .seqlen_q = 16384,
          .seqlen_k = 16384,
          .head_dim = 128};
}

std::set<std::pair<std::int64_t, std::int64_t>> places(
    const std::vector<reference::Group>& groups) {
  std::set<std::pair<std::int64_t, std::int64_t>> set;
  for (const reference::Group& group : groups) set.emplace(group.batch, group.head_kv);
  return set;
}

TEST(WholeReference, LooksAtAllHeadsWhereThatTakesLittle) {
  Problem problem = of_the_papers();
  EXPECT_EQ(places(choose_groups(problem, hopper(), 1, kReferenceSeconds)).size(), 16u);
  problem.batch = 3;
  problem.num_heads_kv = 4;
  problem.seqlen_q = problem.seqlen_k = 4096;
  EXPECT_EQ(places(choose_groups(problem, hopper(), 1, kReferenceSeconds)).size(), 12u);
}

TEST(WholeReference, DrawsHeadsWhereAllWouldTakeLong) {
  Problem problem = of_the_papers();
  problem.batch = 8;
  problem.seqlen_q = problem.seqlen_k = 65536;
  const auto first = places(choose_groups(problem, hopper(), 1, kReferenceSeconds));
  EXPECT_GE(first.size(), 1u);
  EXPECT_LT(first.size(), 128u);
  EXPECT_EQ(places(choose_groups(problem, hopper(), 1, kReferenceSeconds)), first);
  EXPECT_NE(places(choose_groups(problem, hopper(), 2, kReferenceSeconds)), first);
  double seconds = 0.0;
  for (std::size_t i = 0; i < first.size(); ++i) seconds += seconds_of_group(problem, 0, hopper());
  EXPECT_TRUE(first.size() == 1 || seconds <= kReferenceSeconds) << seconds;
  // Fewer are drawn where less time is given, of the same ones.
  const auto few = places(choose_groups(problem, hopper(), 1, 0.3 * kReferenceSeconds));
  EXPECT_LT(few.size(), first.size());
  EXPECT_TRUE(std::includes(first.begin(), first.end(), few.begin(), few.end()));
}

// Heads that share keys and values stand together, since dK and dV are sums over them.
TEST(WholeReference, CostsOfAGroupAreOfAllItsHeads) {
  Problem problem = of_the_papers();
  const double alone = seconds_of_group(problem, 0, hopper());
  problem.num_heads_kv = 4;
  EXPECT_DOUBLE_EQ(seconds_of_group(problem, 0, hopper()), 4.0 * alone);
  problem.pass = Pass::fwd;
  EXPECT_LT(seconds_of_group(problem, 0, hopper()), 4.0 * alone);
}

TEST(WholeReference, WithoutARateOfDoublesNobodyAsksForIt) {
  EXPECT_TRUE(std::isinf(
      seconds_of_group(of_the_papers(), 0, {.backend = Backend::cuda, .compute_capability = 89})));
}

}  // namespace
}  // namespace attnlab
