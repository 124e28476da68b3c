// Names for what the program does, for the profilers that watch it: Nsight shows and filters by
// them. Without a profiler they cost nothing to speak of.
#pragma once

#include <string>

namespace attnlab {

// The domain of all ranges: what Nsight's filters have before the '@'.
inline constexpr const char* kProfilerDomain = "attnlab";

// Inside of it, what this thread does has a name. Ranges nest; a range is gone before the one
// around it. Nothing in a build without CUDA.
class ProfilerRange {
 public:
  explicit ProfilerRange(const std::string& name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

}  // namespace attnlab
