// Declares v3 on the CPU: FlashAttention-3's schedule of producer and consumer roles on tiles.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::v3 {

extern const Implementation kCpu;

}  // namespace attnlab::v3
