// Says where tests find the tree and what this build made. Only tests/paths.cpp is compiled with
// these folders in its definitions, so that the compiler cache serves all other objects of the
// tests in every clone and every build folder.
#pragma once

#include <string>

namespace attnlab {

// Return the absolute path of a file, by its path from the tree's root, or from the build folder.
std::string in_tree(const std::string& path);
std::string in_build(const std::string& path);

}  // namespace attnlab
