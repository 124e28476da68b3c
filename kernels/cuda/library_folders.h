// Says where CUDA's libraries may lie when the system's loader does not know them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attnlab::cuda {

// Returns the folders that exist, in the order in which they are searched: $CUDA_HOME, $CUDA_PATH
// and $CONDA_PREFIX, /usr/local/cuda and its numbered neighbours (newest first), the local
// environment of scripts/setup.sh --cuda (.cuda in the source tree or beside the program, where
// others can write neither it nor a file beside the libraries), Python's nvidia wheels. Reads
// folders and the environment; runs nothing.
std::vector<std::filesystem::path> library_folders();

// Returns why a local environment that is there, or a folder of its libraries or programs, is left
// out (why_untrusted, why_untrusted_files), "" if none is.
std::string refused_folder();

}  // namespace attnlab::cuda
