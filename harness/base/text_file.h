// Reads and replaces small files of text as a whole.
#pragma once

#include <filesystem>
#include <string>

namespace attnlab {

// Returns all of a file. Throws UsageError where it cannot be read as one.
std::string read_text(const std::filesystem::path& file);

// Puts a file with this text in the place of the old one, whole or not at all (Replacement).
// Throws UsageError.
void replace_text(const std::filesystem::path& file, const std::string& text);

}  // namespace attnlab
