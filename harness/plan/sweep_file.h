// Reads sweep files, whose format sweeps/README.md describes, and flags that share their grammar.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "harness/plan/sweep.h"

namespace attnlab {

// Returns the values of an axis as the comma list that AxisGrammar::set() takes: a file may write a
// number, a string in the grammar of the flags, or an array of these. Throws UsageError.
std::string axis_text(const nlohmann::ordered_json& value, const std::string& where);

// Returns whether a file is a sweep by its name: *.json, but no JSON Schema (*.schema.json), no
// paper file (*.paper.json) and no published table (*.published.json).
bool is_sweep_name(const std::filesystem::path& path);

// Reads a sweep file, strictly: throws UsageError naming file and key for anything unknown,
// misspelt (with the nearest known name), out of range, or of the wrong type. The axes of configs
// are those of the registered kernels.
Sweep read_sweep(const std::filesystem::path& path, const Registry& registry);
// Reads a sweep that stands in another file; `file` leads the messages.
Sweep read_sweep(const nlohmann::ordered_json& json, const std::string& file,
                 const Registry& registry);

// Sets keys of the protocol: "min_rounds=3,warmup_seconds=0.1", with the keys of a sweep file's
// protocol. Throws UsageError, led by `where`.
void set_protocol(Sweep& sweep, std::string_view text, const std::string& where);

}  // namespace attnlab
