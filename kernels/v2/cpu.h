// Declares v2 on the CPU: FlashAttention-2's forward schedule on tiles.
#pragma once

#include "kernels/api/implementation.h"

namespace attnlab::v2 {

extern const Implementation kCpu;

}  // namespace attnlab::v2
