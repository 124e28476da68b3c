// Finds the nearest known name, for messages about misspelt flags, keys, kernels and fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attnlab {

// Returns the known name with the fewest edits (insert, delete, replace, swap of neighbours), or ""
// if none comes within a third of the name's length (at least 2 edits).
std::string nearest(std::string_view name, const std::vector<std::string>& known);

// Returns the end of a complaint about `name`: "; did you mean 'x'?" or "; there are: a, b, c".
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

// Returns the same of names too many to list: "; did you mean 'x'?" or "; the nearest are: a, b,
// c", those that contain `name` first.
std::string short_suggestion(std::string_view name, std::vector<std::string> known);

}  // namespace attnlab
