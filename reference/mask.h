// Says which keys a row sees: the oracle's own statement of the masks, straight from their
// definitions (kernels/api/mask_spec.h). It shares no code with kernels/shared/mask.h and
// kernels/api, which it judges; random patterns share the bare philox().
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/problem.h"

namespace attnlab::reference {

// Return rows and keys that entry b has in the tensors: its own lengths when packed, else seqlen_q
// and seqlen_k (keys that padding hides are there all the same).
std::int64_t rows_in_memory(const Problem& problem, std::int64_t b);
std::int64_t keys_in_memory(const Problem& problem, std::int64_t b);

// Visibility says who sees whom in one problem: it is built once and asked for every pair.
class Visibility {
 public:
  // Throws std::invalid_argument for a block pattern that does not exist, and for a pattern file
  // that cannot be read or has another shape.
  explicit Visibility(const Problem& problem);

  // Returns whether key c is visible to row r of entry b: whether every part of the mask allows it.
  // Indices count from the entry's first row and key.
  bool sees(std::int64_t b, std::int64_t r, std::int64_t c) const;

 private:
  struct Entry {
    std::int64_t diagonal = 0;  // row r is aligned with key r + diagonal
    std::int64_t keys = 0;      // that exist
  };
  MaskSpec mask_;
  std::vector<Entry> entries_;
  std::vector<std::vector<bool>> blocks_;  // [block of rows][block of keys]; empty: no pattern
};

}  // namespace attnlab::reference
