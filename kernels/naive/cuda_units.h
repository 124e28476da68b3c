// Gives naive's kernels to the compiler: a unit for each storage type and direction, with one entry
// for each pass and, of softmax, for each class of rows.
#pragma once

#include "kernels/api/compiler.h"
#include "kernels/api/problem.h"
#include "kernels/naive/schedule.h"

namespace attnlab::naive {

KernelUnit forward_unit(Dtype dtype);
KernelUnit backward_unit(Dtype dtype);
KernelUnit e4m3_unit();  // what is around a forward of f32

// Return entries of units. `kernel` is "softmax_rows" or "softmax_backward_rows".
KernelEntry pass_entry(const std::string& kernel);
KernelEntry row_class_entry(const std::string& kernel, const RowClass& row_class);

}  // namespace attnlab::naive
