#include "harness/base/text_file.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <span>

#include "harness/base/errors.h"
#include "harness/base/replacement.h"

namespace attnlab {

std::string read_text(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream || !std::filesystem::is_regular_file(file)) {
    throw UsageError(fmt::format("{}: cannot be read as a file", file.string()));
  }
  return {std::istreambuf_iterator<char>(stream), {}};
}

void replace_text(const std::filesystem::path& file, const std::string& text) {
  Replacement replacement(file);
  replacement.write(std::as_bytes(std::span(text)));
  replacement.put_in_place();
}

}  // namespace attnlab
