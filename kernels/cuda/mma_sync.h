// Says what the kernels on mma.sync, cp.async and ldmatrix share (v1, v2): which problems they
// take, and the head_dim of their tiles. v3, on wgmma, takes some of the same problems.
#pragma once

#include <string>

#include "kernels/api/device.h"
#include "kernels/api/problem.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

inline constexpr i32 kLargestHeadDim = 256;
inline constexpr i32 kRegistersOfThread = 255;

// Returns the reason why they do not run this, or empty.
std::string unsupported_by_mma_sync(const Problem& problem, const Device& device);

// Returns the tiles' head_dim: kernels are compiled for few, columns of zeros fill the rest.
i32 padded_head_dim(const Problem& problem);

}  // namespace attnlab::cuda
