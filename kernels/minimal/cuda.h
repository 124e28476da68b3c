// Declares minimal on a GPU: the smallest kernel with the whole idea, for teaching, not for speed.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::minimal {

extern const Implementation kCuda;

}  // namespace attnlab::minimal
