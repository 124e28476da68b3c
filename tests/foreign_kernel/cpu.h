// Declares a kernel with axes of its own: v2's, under names that nobody knows.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::foreign {

extern const Implementation kCpu;

}  // namespace attnlab::foreign
