// Draws block patterns from their definitions in kernels/api/mask_spec.h, for the oracle.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/mask_spec.h"

namespace attnlab::reference {

// Returns in [i][j] whether block i of rows sees block j of keys. Throws std::invalid_argument for
// a pattern that does not exist or lacks arguments, and for a file that cannot be read, holds
// anything but blanks, '0' and '1', or has another shape.
std::vector<std::vector<bool>> draw_pattern(const BlocksSpec& spec, std::int64_t seqlen_q,
                                            std::int64_t seqlen_k);

}  // namespace attnlab::reference
