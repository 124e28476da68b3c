#include "harness/plan/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>
#include <utility>

#include "harness/base/derive_seed.h"
#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/plan/cost.h"

namespace attnlab {
namespace {

constexpr int kMostShards = 100'000;

// Reads a whole number from 1 on, made of digits only; returns 0 for anything else.
int read_count(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || value < 1 || value > kMostShards) return 0;
  return value;
}

std::size_t count_points(const CaseGroup& group) {
  std::size_t points = 0;
  for (const Case& work : group) points += work.competitors.size();
  return points;
}

// Adds up what a shard has been dealt. Points decide where weights are equal: a group of which
// nothing runs has no weight.
struct Load {
  double weight = 0.0;
  std::size_t points = 0;
};

// Returns the shard of each group, from 0: the dearest group is dealt first, each to the shard that
// has least so far.
std::vector<std::size_t> deal(const std::vector<CaseGroup>& groups, std::size_t shards,
                              const Protocol& protocol) {
  std::vector<double> weights;
  for (const CaseGroup& group : groups) weights.push_back(case_weight(group, protocol));
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return weights[i]; });
  std::vector<Load> loads(shards);
  std::vector<std::size_t> shard_of(groups.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(
        loads, {}, [](const Load& load) { return std::pair(load.weight, load.points); });
    shard_of[i] = static_cast<std::size_t>(least - loads.begin());
    least->weight += weights[i];
    least->points += count_points(groups[i]);
  }
  return shard_of;
}

std::string name_of(const Case& work) {
  std::string name =
      fmt::format("{} {} {}", work.problem.id(), to_string(work.input_kind), work.seed);
  for (const Competitor& competitor : work.competitors) name += " " + competitor.kernel;
  return name;
}

}  // namespace

std::string to_string(const Shard& shard) { return fmt::format("{}/{}", shard.index, shard.of); }

Shard parse_shard(const std::string& text, const std::string& where) {
  const std::string_view all = text;
  const std::size_t slash = std::min(all.find('/'), all.size());
  const int index = read_count(all.substr(0, slash));
  const int of = slash < all.size() ? read_count(all.substr(slash + 1)) : 0;
  if (index == 0 || index > of) {
    throw UsageError(fmt::format(
        "{}: '{}' is not K/N, the K-th of N shards: write one from 1/N to N/N, N up to {}", where,
        text, kMostShards));
  }
  return {.index = index, .of = of};
}

ShardedCases take_shard(const std::vector<Case>& cases, const Shard& shard,
                        const Protocol& protocol) {
  const std::vector<CaseGroup> groups = group_layouts(cases);
  const auto shards = static_cast<std::size_t>(shard.of);
  if (shards > groups.size()) {
    throw UsageError(
        fmt::format("--shard {}: the sweep has {} that can be apart: take at most {} shards",
                    to_string(shard), count_of(groups.size(), "case"), groups.size()));
  }
  const std::vector<std::size_t> shard_of = deal(groups, shards, protocol);
  ShardedCases result = {.part = {.shard = shard, .of_weight = case_weight(cases, protocol)}};
  std::uint64_t hash = derive_seed(0, std::to_string(shards));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    result.part.of_points += count_points(groups[i]);
    for (const Case& work : groups[i]) {
      hash = derive_seed(hash, fmt::format("{} {}", name_of(work), shard_of[i]));
    }
    if (shard_of[i] + 1 != static_cast<std::size_t>(shard.index)) continue;
    result.part.points += count_points(groups[i]);
    result.cases.insert(result.cases.end(), groups[i].begin(), groups[i].end());
  }
  result.part.weight = case_weight(result.cases, protocol);
  result.part.cut = fmt::format("{:016x}", hash);
  return result;
}

std::string describe(const ShardPart& part) {
  const double share = part.of_weight > 0.0 ? part.weight / part.of_weight : 0.0;
  return fmt::format("shard {} with {:.1f} % of the predicted time", to_string(part.shard),
                     100.0 * share);
}

}  // namespace attnlab
