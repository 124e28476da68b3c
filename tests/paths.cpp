#include "tests/paths.h"

namespace attnlab {

std::string in_tree(const std::string& path) { return ATTNLAB_SOURCE_DIR "/" + path; }
std::string in_build(const std::string& path) { return ATTNLAB_BINARY_DIR "/" + path; }

}  // namespace attnlab
