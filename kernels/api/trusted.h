// Says whether a file that nobody named may be run or loaded.
#pragma once

#include <filesystem>
#include <string>

namespace attnlab {

// Returns why not, in one sentence that names who else could have put it there; empty if nobody
// could: only root, who runs this program and who owns it can write the file or folder, or put
// another in its place. A group counts as its only member. It says so, too, of what is not there.
std::string why_untrusted(const std::filesystem::path& path);

// Returns the same of a folder from which files are loaded by name, modules and libraries that
// others of them ask for: of itself, of each file in it, and of those in its __pycache__, which
// Python takes in place of a module's text.
std::string why_untrusted_files(const std::filesystem::path& folder);

}  // namespace attnlab
