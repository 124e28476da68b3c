// Runtime is a GPU as the harness sees it: memory, one stream, a clock made of events.
#pragma once

#include "kernels/api/runtime.h"

namespace attnlab::cuda {

// It is made on first use, lives as long as the process, and makes the device's context current.
Runtime& runtime_of(const Device& device);

}  // namespace attnlab::cuda
