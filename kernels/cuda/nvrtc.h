// Opens NVRTC, CUDA's compiler as a library, when it is first needed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attnlab::cuda {

struct Header {
  std::string name;  // as #include says it
  std::string text;
};

// NvrtcResult is that of one run of the compiler. `cubin` is empty if it failed; the log says why.
struct NvrtcResult {
  std::string cubin;
  std::string log;
};

// Returns "NVRTC 13.0". Throws MissingLibrary.
std::string nvrtc_version();

// Returns the path of the file that was opened. Throws MissingLibrary.
std::filesystem::path nvrtc_path();

// Returns the version and what tells two builds of it apart. Throws MissingLibrary.
std::string nvrtc_build();

// Compiles; `name` is how the log calls the unit. Throws MissingLibrary, and std::runtime_error
// where not the source but the call is wrong (an unknown option, no memory).
NvrtcResult nvrtc_compile(const std::string& source, const std::string& name,
                          const std::vector<Header>& headers,
                          const std::vector<std::string>& options);

}  // namespace attnlab::cuda
