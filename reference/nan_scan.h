// Finds NaN in an output, all of which is looked at, however little is compared with the oracle: an
// element that a kernel never wrote is NaN, because outputs are filled with it before it runs.
#pragma once

#include <string>

#include "kernels/api/problem.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Returns "o: 128 of 4096 elements are NaN, the first at batch 0 head 1 row 3 column 0"; empty if
// none is. `tensor` has the shape of q (Side::query) or of k.
std::string find_nan(const Problem& problem, const std::string& name, Side side,
                     const void* tensor);

// Returns what is NaN in an lse; rows that a packed entry does not have may hold anything.
std::string find_nan_in_lse(const Problem& problem, const float* lse);

}  // namespace attnlab::reference
