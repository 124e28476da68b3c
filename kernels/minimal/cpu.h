// Declares minimal on the CPU: the smallest kernel with the whole idea, to teach, not for speed.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::minimal {

extern const Implementation kCpu;

}  // namespace attnlab::minimal
