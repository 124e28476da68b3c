// Chooses a part of a sweep: the points that a file lists.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/run/context.h"
#include "harness/run/run.h"

namespace attnlab {

// Returns the record_key() of each competitor, in their order.
std::vector<std::string> planned_keys(const std::vector<Case>& cases, const RunContext& context);
// Returns their asked_key()s, which name the points in another version of this program, too.
std::vector<std::string> asked_keys(const std::vector<Case>& cases, const RunContext& context);

// Returns the cases with the competitors whose record_key() or asked_key() is a line of the file.
// Throws UsageError where the file cannot be read or lists no point of the sweep.
std::vector<Case> only_listed(const std::vector<Case>& cases, const RunContext& context,
                              const std::filesystem::path& file);

}  // namespace attnlab
