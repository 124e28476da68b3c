// The JSON header of a safetensors file: what it says, not yet compared with the file's bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/safetensors.h"

namespace attnlab {

// One tensor. A header that was parsed has every field, and two offsets.
struct HeaderEntry {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;  // begin, end
};

struct Header {
  std::map<std::string, HeaderEntry> entries;
  std::optional<Metadata> metadata;
};

// Throws UsageError, led by `file`, for what is no JSON and for any value that the format does not
// expect at its place.
Header parse_header(const std::string& text, const std::string& file);

// "FILE: tensor 'NAME'", for messages.
std::string tensor_place(const std::string& file, const std::string& name);

}  // namespace attnlab
