#include "harness/base/shipped.h"

#include "kernels/api/trusted.h"

namespace attnlab {

namespace fs = std::filesystem;

namespace {

// Finds it where `why_not` has no objection.
template <class WhyNot>
Shipped find_where(const fs::path& path, const WhyNot& why_not) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path source = ATTNLAB_SOURCE_ROOT;
  Shipped found;
  for (const fs::path& place : {source / path, program / path, program / "share/attnlab" / path,
                                program.parent_path() / "share/attnlab" / path}) {
    if (!fs::exists(place, error)) continue;
    const std::string refused = why_not(place);
    if (refused.empty()) return {.path = place};
    if (found.refused.empty()) found.refused = refused;
  }
  return found;
}

}  // namespace

Shipped find_shipped(const fs::path& path) { return find_where(path, why_untrusted); }

Shipped find_shipped_among_modules(const fs::path& path) {
  return find_where(path, [](const fs::path& place) {
    const std::string why = why_untrusted(place);
    return why.empty() ? why_untrusted_files(place.parent_path()) : why;
  });
}

fs::path here_or_shipped(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error)) return path;
  const fs::path found = find_shipped(path).path;
  return found.empty() ? path : found;
}

}  // namespace attnlab
