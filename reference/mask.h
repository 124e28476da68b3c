// Which keys a row sees: the oracle's own statement of the masks, straight from their definitions
// and one pair at a time. It shares no code with kernels/shared/mask.h, which it judges.
#pragma once

#include <cstdint>

#include "kernels/api/problem.h"

namespace attnlab::reference {

// Rows and keys that entry b has in the tensors: its own lengths when packed, else seqlen_q and
// seqlen_k (keys that padding hides are there all the same).
std::int64_t rows_in_memory(const Problem& problem, std::int64_t b);
std::int64_t keys_in_memory(const Problem& problem, std::int64_t b);

// Whether key c is visible to row r of entry b: whether every part of the mask allows it. Indices
// count from the entry's first row and key. Throws std::invalid_argument for a block pattern that
// does not exist.
bool key_is_visible(const Problem& problem, std::int64_t b, std::int64_t r, std::int64_t c);

}  // namespace attnlab::reference
