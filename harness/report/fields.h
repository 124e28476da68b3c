// Defines the fields of a table: what each one is called, where in a record it stands, and how it
// is printed.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/report/field.h"

namespace attnlab {

// Help texts say this of a field that rows, cols, values and where may name.
struct FieldHelp {
  const char* name;
  const char* unit;
  const char* summary;
};
const std::vector<FieldHelp>& field_help();

// Returns the fields in the order in which help and long tables list them.
const std::vector<Field>& fields();

// Finds a field. Throws UsageError, led by `where`, with the nearest name.
const Field& find_field(std::string_view name, std::string_view where);

// Keeps the records whose fields have one of the values (in their exact text), for all conditions.
// Throws UsageError, naming --where, for an unknown field and where none is left.
using Conditions = std::vector<std::pair<std::string, std::vector<std::string>>>;
std::vector<RecordJson> choose(std::vector<RecordJson> records, const Conditions& where);

// Returns what a table shows: "-" for null.
std::string display(const Field& field, const RecordJson& value);

// Returns every digit, for csv and for comparing: "" for null.
std::string exact(const RecordJson& value);

// Under this key add_speedups() leaves what one record alone does not know: the object of `over`,
// the kernel, `ratio`, `interval` (as Field::interval), `base_settled` (as the base's telemetry).
inline constexpr const char* kSpeedupKey = "speedup";
bool is_speedup(const Field& field);

// This is the time of making codes and scales, which only points of e4m3 have, and not all of them.
inline constexpr const char* kQuantiseField = "quantise_ms";

// Under this key keep_best_layouts() leaves what one record alone does not know: `point`, the same
// text for all layouts of one problem; `timed`, the layouts that have a time; `refused`, each other
// layout with its status.
inline constexpr const char* kBestLayoutKey = "best_layout";

// Gives every record with a time the ratio of the base's time to it, on the same case, device and
// protocol; of several configs of the base the fastest counts. Cases of best layouts
// (keep_best_layouts()) are the same whatever the layout.
void add_speedups(std::vector<RecordJson>& records, const std::string& base);

}  // namespace attnlab
