// NVTX ranges. Its headers open a library only where a profiler asks for it
// (NVTX_INJECTION64_PATH), so nothing is linked.
#pragma once

namespace attnlab::cuda {

// A nested range of this thread in the domain kProfilerDomain. Does nothing where nobody listens.
void push_range(const char* name);
void pop_range();

}  // namespace attnlab::cuda
