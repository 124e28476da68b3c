// minimal on a GPU: the smallest kernel that has the whole idea. For teaching, not for speed.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::minimal {

extern const Implementation kCuda;

}  // namespace attnlab::minimal
