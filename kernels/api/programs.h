// Finds programs as a shell does.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "kernels/api/text.h"

namespace attnlab {

// Returns whether it is a file that somebody may start.
inline bool is_program(const std::filesystem::path& file) {
  using std::filesystem::perms;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  constexpr perms kStarts = perms::owner_exec | perms::group_exec | perms::others_exec;
  return std::filesystem::is_regular_file(status) &&
         (status.permissions() & kStarts) != perms::none;
}

// Returns the first program of this name in the folders of PATH; empty where none has it.
inline std::string find_on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  if (path == nullptr) return "";
  for (const std::string_view folder : split(path, ':')) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    if (!folder.empty() && is_program(file)) return file.string();
  }
  return "";
}

}  // namespace attnlab
