// Tells the profilers that watch what this program does. NVTX's headers open a library only where a
// profiler asks for it (NVTX_INJECTION64_PATH), so nothing is linked.
#pragma once

namespace attnlab::cuda {

// Begins a nested range of this thread in kProfilerDomain. Does nothing where nobody listens.
void push_range(const char* name);
void pop_range();

// Profilers that wait for it begin to watch, and stop. A GPU must be in use. Starting throws
// std::runtime_error.
void start_profilers();
void stop_profilers();

}  // namespace attnlab::cuda
