// The grammar of the axes: one row for each, which says how its values are read, written and found
// on a point. Sweep files, flags, exclusions and help texts all come from these rows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/sweep.h"

namespace attnlab {

// The axis names that set_axis takes, each with a one-line description and an example value.
struct AxisHelp {
  const char* name;
  const char* values;
  const char* summary;
};
const std::vector<AxisHelp>& axis_help();

struct AxisGrammar {
  AxisHelp help;
  // Replaces the axis's values by those of a comma list. Throws UsageError, led by `where`.
  std::function<void(Axes& axes, std::string_view text, const std::string& where)> set;
  // The values in canonical text, the form that exclusions hold.
  std::function<std::vector<std::string>(const Axes& axes)> values;
  // The canonical text of a point's value; "" where the point has none (no blocks, say).
  std::function<std::string(const Case& point, const Competitor& competitor)> value_of;
};

// An axis of kernels' configs that a sweep sets under the same name, one value at a time. (`block`
// sets two at once: block_m and block_n.)
struct ConfigAxisRow {
  AxisHelp help;
  std::vector<std::int64_t> Axes::*member;
  std::vector<std::int64_t> (*parse)(std::string_view item);
};
const std::vector<ConfigAxisRow>& config_axis_rows();

// In the order of the members of Axes.
const std::vector<AxisGrammar>& axis_grammars();

// Throws UsageError, led by `where`, with the nearest name.
const AxisGrammar& find_axis(std::string_view name, std::string_view where);

// Sets one axis of all products from its text, e.g. ("seqlen", "512:8192:x2"), ("mask",
// "none,causal"),
// ("block", "64x64,128x128"). `where` names the flag or the file and key for the error message.
// Throws UsageError.
void set_axis(Sweep& sweep, std::string_view axis, std::string_view text, const std::string& where);

// "auto", "cpu" or "cuda". Throws UsageError, led by `where`.
BackendChoice parse_backend(std::string_view text, const std::string& where);

// Throws UsageError for a name that is neither registered nor a generation: a typing error.
void check_kernel_name(const std::string& name, const Registry& registry);

// The generations of the laboratory, in the order of their history. A sweep may name one that has
// no implementation on its backend yet; any other unknown name is a typing error.
const std::vector<std::string>& generations();

}  // namespace attnlab
