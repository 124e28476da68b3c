// Defines the pieces that make_references() deals out to threads.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/oracle_backward.h"
#include "reference/references.h"

namespace attnlab::reference {

// Chunk holds rows of one slice that are worked on together.
struct Chunk {
  const Slice* slice = nullptr;
  const Slice* unquantised = nullptr;  // of e4m3: the same rows of the inputs as they were
  std::vector<std::int64_t> rows;
  RowReference* reference = nullptr;  // null: the rows are only part of columns
  Eigen::Index first = 0;             // in the reference
};

// ColumnParts has dK and dV of some keys, of the chunks of one task.
struct ColumnParts {
  ColumnSums<double> exact;
  ColumnSums<float> twin, sizes;
  Matrix<float> delta_squares;  // of the errors of dK that delta brings
  std::vector<bool> seen;
};

// Task is chunks that one thread works on in this order: some rows, or a share of the rows of one
// column reference.
struct Task {
  std::vector<Chunk> chunks;
  ColumnReference* reference = nullptr;  // null: rows only
  ColumnParts parts;
};

// Fills the chunks' references and the task's parts.
void run(const Problem& problem, Products products, Task& task);

}  // namespace attnlab::reference
