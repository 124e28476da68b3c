#include "harness/base/shipped.h"

namespace attnlab {

namespace fs = std::filesystem;

fs::path shipped(const fs::path& path) {
  std::error_code error;
  for (fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
       folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& place : {folder / path, folder / "share/attnlab" / path}) {
      if (fs::exists(place, error)) return place;
    }
  }
  return {};
}

fs::path here_or_shipped(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) return path;
  const fs::path found = shipped(path);
  return found.empty() ? path : found;
}

}  // namespace attnlab
