// What comes with the program beside itself: sweeps, scripts.
#pragma once

#include <filesystem>

namespace attnlab {

// A file or folder by its path in the source tree: in the tree that the program was built in, or in
// share/attnlab of where it was installed. Empty where neither has it.
std::filesystem::path shipped(const std::filesystem::path& path);

// The path itself where the current folder has it, else shipped(); itself again where nobody has
// it, for a message.
std::filesystem::path here_or_shipped(const std::filesystem::path& path);

}  // namespace attnlab
