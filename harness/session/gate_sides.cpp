#include "harness/session/gate_sides.h"

#include <fmt/format.h>
#include <unistd.h>

#include "harness/base/errors.h"

namespace attnlab {

GateSide own_side(const std::string& name, const CompilerSettings& compiler,
                  const std::string& sources) {
  // This starts the program that runs now, even if another one has taken the place of its file.
  GateSide side = {.name = name, .program = "/proc/self/exe"};
  for (const auto& [flag, value] :
       {std::pair("--cache-dir", compiler.cache_folder), std::pair("--nvrtc", compiler.library),
        std::pair("--kernel-sources", sources)}) {
    if (!value.empty()) side.arguments.push_back(fmt::format("{}={}", flag, value));
  }
  return side;
}

GateSide named_side(const std::string& name, const std::string& flag, const std::string& path,
                    const CompilerSettings& compiler, const Device& device) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    if (!std::filesystem::is_directory(std::filesystem::path(path) / "kernels", error)) {
      throw UsageError(
          fmt::format("{}: {}: holds no folder kernels: name the root of a source tree, or an "
                      "attnlab",
                      flag, path));
    }
    if (device.backend == Backend::cpu) {
      throw UsageError(
          fmt::format("{}: {}: is a source tree, and kernels of the CPU are part of a program: "
                      "build it, and name its attnlab",
                      flag, path));
    }
    return own_side(name, compiler, path);
  }
  if (access(path.c_str(), X_OK) != 0) {
    throw UsageError(
        fmt::format("{}: {}: is no program that can be started, and no source tree", flag, path));
  }
  GateSide side = own_side(name, compiler, "");
  side.program = std::filesystem::absolute(path).string();
  return side;
}

}  // namespace attnlab
