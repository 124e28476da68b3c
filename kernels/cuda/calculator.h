// A GPU computes for a judge: kernels of a unit that the judge brings, and products by cuBLAS.
#pragma once

#include <memory>

#include "kernels/api/calculator.h"

namespace attnlab::cuda {

// See attnlab::make_calculator() for what it makes.
std::unique_ptr<Calculator> make_calculator(const Device& device, const KernelUnit& unit);

}  // namespace attnlab::cuda
