// attnlab table --best layout: each competitor in the layout in which it is faster.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// Of each competitor (kernel and config as asked for) on each problem, whatever the layout, the
// record with the shortest median; where none has a time, the last. Problems are the same if
// inputs, device and protocol are, too; packed entries are a problem of their own. Of several
// records of one point the last counts. Keeps the order.
std::vector<RecordJson> keep_best_layouts(const std::vector<RecordJson>& records);

// Whether the records come from there.
bool are_best_layouts(const std::vector<RecordJson>& records);

// What stands below such a table: of how many points only one layout has a time, and what became
// of others. "" where the records are no best layouts.
std::string best_layout_note(const std::vector<RecordJson>& records);

}  // namespace attnlab
