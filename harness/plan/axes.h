// Defines the grammar of the axes: one row for each, which says how its values are read, written
// and found on a point. Sweep files, flags, exclusions and help texts all use these rows. Those of
// the problem are written here; those of kernels' configs come from the kernels' declarations.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/plan/sweep.h"
#include "kernels/api/registry.h"

namespace attnlab {

// Holds a one-line description of an axis, and an example of a comma list that it takes.
struct AxisHelp {
  std::string name;
  std::string values;
  std::string summary;
};

// Holds an axis of kernels' configs, which all kernels that declare this name share.
struct SharedAxis {
  AxisHelp help;  // the summary ends with the kernels that have the axis
  std::int64_t minimum = 0;
  std::int64_t maximum = 0;  // what at least one of them takes
};

// Returns the axes that sweeps set under their own names, one value at a time: all but block_m and
// block_n, which are set together (`block`). They are in the order of their declarations, a GPU's
// kernels first, whose summaries and examples count where several kernels declare one.
std::vector<SharedAxis> shared_axes(const Registry& registry);

struct AxisGrammar {
  AxisHelp help;
  // Replaces the axis's values by those of a comma list. Throws UsageError, led by `where`.
  std::function<void(Axes& axes, std::string_view text, const std::string& where)> set;
  // Returns the values in canonical text, the form that exclusions hold.
  std::function<std::vector<std::string>(const Axes& axes)> values;
  // Returns the canonical text of a point's value; "" where the point has none (no blocks, say).
  std::function<std::string(const Case& work, const Competitor& competitor)> value_of;
};

class AxisGrammars {
 public:
  // Throws std::invalid_argument where a kernel's axis has the name of one of the problem.
  explicit AxisGrammars(const Registry& registry);

  // Returns the axes of the problem, of the kernel, and then of its config.
  const std::vector<AxisGrammar>& rows() const { return rows_; }
  // Finds an axis. Throws UsageError, led by `where`, with the nearest name.
  const AxisGrammar& find(std::string_view name, std::string_view where) const;
  // Sets one axis of all products from its text, e.g. ("seqlen", "512:8192:x2"), ("mask",
  // "none,causal"), ("block", "64x64,128x128"). `where` names the flag or the file and key for the
  // error message. Throws UsageError.
  void set(Sweep& sweep, std::string_view axis, std::string_view text,
           const std::string& where) const;

 private:
  std::vector<AxisGrammar> rows_;
};

// Returns "--head-dim" for the axis head_dim.
std::string flag_of(std::string_view axis);

// Reads "auto", "cpu" or "cuda". Throws UsageError, led by `where`.
BackendChoice parse_backend(std::string_view text, const std::string& where);

// Returns the names of all kernels, of any backend, in the order of their registration.
std::vector<std::string> kernel_names(const Registry& registry);

// Throws UsageError for a name that is registered for no backend: a typing error.
void check_kernel_name(const std::string& name, const Registry& registry);

}  // namespace attnlab
