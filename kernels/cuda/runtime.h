// A GPU as the harness sees it: memory, one stream, a clock made of events.
#pragma once

#include "kernels/api/runtime.h"

namespace attnlab::cuda {

// Made on first use, lives as long as the process. The device's context becomes current.
Runtime& runtime_of(const Device& device);

}  // namespace attnlab::cuda
