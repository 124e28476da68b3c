// Checks whether a launch multiplied as much as its schedule says: compares counted tensor
// instructions with the executed FLOPs.
#pragma once

#include <optional>
#include <string>

#include "harness/record/record.h"

namespace attnlab {

// Returns a launch's counted FLOPs over executed ones. It is empty where tensor instructions do not
// make the products (f32 without TF32), and where not all that may make them were counted: a
// kernel's own products use wgmma or mma.sync, those of a `library` (null if there is none) both.
std::optional<double> tensor_flops_of_executed(const Record& record, const char* library);

// Returns why that share is impossible, "" if it is 1, within 1 %. A library multiplies whole tiles
// of up to 256 in each extent, so it may do as much more as such tiles go beyond the matrices.
std::string wrong_tensor_flops(double share, const Problem& problem, const char* library);

}  // namespace attnlab
