// Implements attnlab table --best layout: shows each competitor in the layout where it is faster.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// Keeps for each competitor (kernel and config as asked for) on each problem, whatever the layout,
// the record with the shortest median; without any time, the last one. Problems are the same if
// inputs, device and protocol are, too; packed entries are a problem of their own. Several records
// of one point count as the last of them. Keeps the order.
std::vector<RecordJson> keep_best_layouts(const std::vector<RecordJson>& records);

// Returns whether the records come from keep_best_layouts().
bool are_best_layouts(const std::vector<RecordJson>& records);

// Returns what stands below such a table: how many points have a time in one layout only, and what
// became of others. It is "" where the records are no best layouts.
std::string best_layout_note(const std::vector<RecordJson>& records);

}  // namespace attnlab
