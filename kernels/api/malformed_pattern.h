// Finds block patterns that no lengths fit.
#pragma once

#include <string>

#include "kernels/api/blocks_spec.h"

namespace attnlab {

// Returns why no lengths fit the pattern: it does not exist, has other arguments, its file cannot
// be read, holds no blocks, or lines of different lengths. It is "" if some fit. Of all this,
// parse_mask() refuses what can be told without the file.
std::string malformed_pattern(const BlocksSpec& spec);

}  // namespace attnlab
