// Collects and compares what a machine without a GPU knows of the CUDA kernels: what the compiler
// makes of every default unit (head dims 64 and 128, as attnlab compile), and what their schedules
// count. All of it is exact, so a difference is a change.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/plan/compile_plan.h"
#include "harness/plan/sweep.h"
#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"

namespace attnlab {

inline constexpr const char* kStaticSchema = "attnlab.static/1";

// Names the chips whose units are compared.
std::vector<std::string> static_archs();

// Returns the schedules that are counted: those of the default units, without a mask and under a
// causal one.
Sweep static_sweep();

// Returns {"schema", "compiler", "units": {"NAME ARCH": {ENTRY: {registers, spill_bytes, ...}}},
// "schedules": {"ARCH POINT KERNEL": {config, requested bytes, FLOPs, tiles, workspace}}}.
nlohmann::ordered_json static_facts(const std::vector<Compilation>& compilations,
                                    const Registry& registry);

// Names a number that is not the same by its path; empty where a side does not have it.
struct StaticChange {
  std::string what;  // "units/v2-forward-f16-d64-128x128-w4-s1 sm_90a/forward/registers"
  std::optional<std::int64_t> base, now;
};
// Returns what differs. Throws UsageError, naming the place, where a number should be and is not.
std::vector<StaticChange> static_changes(const nlohmann::ordered_json& base,
                                         const nlohmann::ordered_json& now);

// Throws UsageError, led by `where`, for text that is no "attnlab.static/1" of whole numbers.
nlohmann::ordered_json parse_static_facts(const std::string& text, const std::string& where);

std::string render_static_changes(const std::vector<StaticChange>& changes, TableFormat format);

}  // namespace attnlab
