#include "harness/measure/device_files.h"

#include <fmt/format.h>

#include <system_error>

#include "harness/base/errors.h"
#include "kernels/api/compiler.h"

namespace attnlab {
namespace {

// Replaces everything but letters, digits, '-', '_' and '.'.
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool stays = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    name += stays ? c : '_';
  }
  return name;
}

}  // namespace

std::filesystem::path device_file(const std::string& folder, const Device& device,
                                  const std::string& ending) {
  std::string name = file_name(device.name);
  if (!device.driver.empty()) name += "-" + file_name(device.driver);
  return std::filesystem::path(cache_folder()) / folder / (name + ending);
}

void make_folder_of(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (!error) return;
  throw UsageError(fmt::format("{}: its folder cannot be made: {}; name another with --cache-dir",
                               file.string(), error.message()));
}

}  // namespace attnlab
