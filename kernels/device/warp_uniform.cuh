// Handles values that are the same in all lanes of a warp, or are made so.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::device {

// Broadcasts a value that all lanes have, so that the compiler knows that it is warp-uniform: it
// keeps one copy for the warp, and branches on it do not diverge.
__device__ inline i32 warp_uniform(i32 value) { return __shfl_sync(0xFFFFFFFFu, value, 0); }

// Returns whether it holds in any lane, which is warp-uniform as well.
__device__ inline bool any_of_warp(bool holds) { return __any_sync(0xFFFFFFFFu, holds); }
__device__ inline bool warp_uniform(bool value) { return any_of_warp(value); }

}  // namespace attnlab::device
