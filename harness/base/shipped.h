// What comes with the program beside itself: sweeps, scripts.
#pragma once

#include <filesystem>
#include <string>

namespace attnlab {

// A file or folder by its path in the source tree: in the tree that the program was built from,
// beside the program, or in share/attnlab there or, of an installed bin/attnlab, one folder up.
// Others could put files anywhere else, above the program, say.
struct Shipped {
  std::filesystem::path path;  // empty where there is none that may be used
  std::string refused;         // why one that is there may not: others can write it (why_untrusted)
};
Shipped find_shipped(const std::filesystem::path& path);

// The path itself where the current folder has it, else find_shipped(); itself again where nobody
// has it, for a message.
std::filesystem::path here_or_shipped(const std::filesystem::path& path);

}  // namespace attnlab
