// Declares naive on a GPU: materialized attention, as a framework does without a fused kernel.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::naive {

extern const Implementation kCuda;

}  // namespace attnlab::naive
