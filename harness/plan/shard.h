// A shard is one of several parts of a sweep, each for a process of its own, perhaps on another
// machine: nothing but the command line tells them about one another.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/plan/case.h"
#include "harness/plan/protocol.h"

namespace attnlab {

struct Shard {
  int index = 1;  // from 1
  int of = 1;
  bool operator==(const Shard&) const = default;
};
std::string to_string(const Shard& shard);  // "2/8"

// Reads "K/N". Throws UsageError, led by `where`.
Shard parse_shard(const std::string& text, const std::string& where);

// Describes one shard of a sweep, and the cut that made it.
struct ShardPart {
  Shard shard;
  std::size_t points = 0;     // of this shard
  std::size_t of_points = 0;  // of the sweep
  double weight = 0.0;        // case_weight() of this shard
  double of_weight = 0.0;     // of the sweep
  std::string cut;            // a hash of which case is where: shards of one cut make up the sweep
};

struct ShardedCases {
  std::vector<Case> cases;  // group by group, in the order of the sweep
  ShardPart part;
};

// Cuts a sweep so that shards take equally long by case_weight(). Cases that take turns (a group)
// stay together, each group is in exactly one shard, and none is empty. The cut depends on nothing
// but the arguments. Throws UsageError where there are fewer groups than shards.
ShardedCases take_shard(const std::vector<Case>& cases, const Shard& shard,
                        const Protocol& protocol);

// Returns "shard 2/8 with 12.4 % of the predicted time".
std::string describe(const ShardPart& part);

}  // namespace attnlab
