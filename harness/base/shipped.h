// Finds what comes with the program beside itself: sweeps, scripts.
#pragma once

#include <filesystem>
#include <string>

namespace attnlab {

// Holds a file or folder, given by its path in the source tree, that was found in the tree of the
// build, beside the program, or in share/attnlab there or one folder up (of an installed
// bin/attnlab). No other place is searched: others could put files above the program, say.
struct Shipped {
  std::filesystem::path path;  // empty where there is none that may be used
  std::string refused;         // why one that is there may not: others can write it (why_untrusted)
};
Shipped find_shipped(const std::filesystem::path& path);
// Finds a program that loads others of its folder: none of them may be written by others, either.
Shipped find_shipped_among_modules(const std::filesystem::path& path);

// Returns the path itself if the current folder has it, else find_shipped()'s. If neither has it,
// returns the path itself again, for a message.
std::filesystem::path here_or_shipped(const std::filesystem::path& path);

}  // namespace attnlab
