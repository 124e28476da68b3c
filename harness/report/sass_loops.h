// Finds the loops of a compiled kernel that start products of tensor cores, and what stands between
// the products of two steps: until the next one starts, no tensor core has work.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/report/sass.h"
#include "harness/report/sass_kinds.h"

namespace attnlab {

// Is a loop that is entered by its first instruction alone. Instructions are numbered in the order
// of addresses; between begin and end there may be some that are not of the loop.
struct SassLoop {
  std::size_t begin = 0;                // the first
  std::size_t end = 0;                  // behind the last branch back to it
  std::size_t all = 0;                  // instructions of it before the end
  std::size_t tensor_instructions = 0;  // of them: wgmma and mma
  SassCounts between_steps;  // behind the last product to the end, and from the begin to the first
};

// Returns the innermost loops with products, by address.
std::vector<SassLoop> product_loops(const SassKernel& kernel);

}  // namespace attnlab
