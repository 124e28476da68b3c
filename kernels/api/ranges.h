// Names what the program does, for the profilers that watch it: Nsight shows and filters by the
// names. Without a profiler they cost nothing to speak of.
#pragma once

#include <string>

#include "kernels/api/device.h"

namespace attnlab {

// This is the domain of all ranges: what Nsight's filters have before the '@'.
inline constexpr const char* kProfilerDomain = "attnlab";

// Gives what this thread does inside of it a name. Ranges nest; a range ends before the one around
// it. It does nothing in a build without CUDA.
class ProfilerRange {
 public:
  explicit ProfilerRange(const std::string& name);
  ~ProfilerRange();
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;
};

// While it lives, profilers watch that were told to wait (cudaProfilerStart): ncu with
// --profile-from-start off, nsys with --capture-range cudaProfilerApi. It does nothing on a CPU.
class ProfilerCapture {
 public:
  explicit ProfilerCapture(const Device& device);
  ~ProfilerCapture();
  ProfilerCapture(const ProfilerCapture&) = delete;
  ProfilerCapture& operator=(const ProfilerCapture&) = delete;

 private:
  Backend backend_;
};

}  // namespace attnlab
