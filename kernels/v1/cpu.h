// Declares v1 on the CPU: FlashAttention's first schedule on tiles.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::v1 {

extern const Implementation kCpu;

}  // namespace attnlab::v1
