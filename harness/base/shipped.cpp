#include "harness/base/shipped.h"

#include "kernels/api/trusted.h"

namespace attnlab {

namespace fs = std::filesystem;

Shipped find_shipped(const fs::path& path) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path source = ATTNLAB_SOURCE_ROOT;
  Shipped found;
  for (const fs::path& place : {source / path, program / path, program / "share/attnlab" / path,
                                program.parent_path() / "share/attnlab" / path}) {
    if (!fs::exists(place, error)) continue;
    const std::string refused = why_untrusted(place);
    if (refused.empty()) return {.path = place};
    if (found.refused.empty()) found.refused = refused;
  }
  return found;
}

fs::path here_or_shipped(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) return path;
  const fs::path found = find_shipped(path).path;
  return found.empty() ? path : found;
}

}  // namespace attnlab
