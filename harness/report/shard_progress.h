// Says how far the shards of sweeps are, from their records alone.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/field.h"

namespace attnlab {

struct ShardState {
  std::string sweep, cut, way;   // way: way_of_measuring()
  int index = 0, of = 0;         // 0: of a run that was not cut, which nobody knows the end of
  std::size_t points = 0;        // 0: not known
  std::size_t sweep_points = 0;  // of all shards of the cut; 0: not known
  std::size_t done = 0;          // whatever came of them
  std::size_t failed = 0;        // verification failed, or the measurement is invalid
  bool is_sweep_done = false;    // all points of all shards are there, of whatever run
  double share_done = 0.0;       // of the predicted time
  std::optional<double> points_a_minute, seconds_left;  // empty: too few records

  bool is_complete() const { return is_sweep_done || (points > 0 && done >= points); }
};

// Returns the shards that have records, in the order of sweeps and shards. What a run of the whole
// sweep (attnlab run --resume, without --shard) did is of no shard, and counts for whichever lacks
// it: nobody can tell for which, but that all is there can be told. Speed is that of the
// processes while they ran: the time between two of them does not count.
std::vector<ShardState> shard_states(const std::vector<RecordJson>& records);

std::string render_progress(const std::vector<ShardState>& shards, TableFormat format);

}  // namespace attnlab
