// Whether a launch multiplied as much as its schedule says: what tensor instructions were counted
// is held against the executed FLOPs.
#pragma once

#include <optional>
#include <string>

#include "harness/record/record.h"

namespace attnlab {

// Counted FLOPs over executed ones, of a launch; empty where tensor instructions do not make the
// products (f32 without TF32), and where not all that may make them were counted: a kernel's own
// products are by wgmma or by mma.sync, a library's (`library` names it, null: none) by both.
std::optional<double> tensor_flops_of_executed(const Record& record, const char* library);

// Why that share cannot be: empty if it is 1, within 1 %. A library multiplies whole tiles of up to
// 256 in each extent, so it may do as much more as such tiles go beyond the matrices.
std::string wrong_tensor_flops(double share, const Problem& problem, const char* library);

}  // namespace attnlab
