// The JSON header of a safetensors file: what it says, not yet compared with the file's bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attnlab {

// Limits of the reader and the writer. The header's is that of the format's own implementation.
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
inline constexpr std::size_t kMostDimensions = 32;
inline constexpr std::uint64_t kHeaderStart = 8;  // behind the header's length
inline constexpr const char* kMetadataKey = "__metadata__";

using Metadata = std::map<std::string, std::string>;

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

// A name from a file, as messages show it: in quotes, without control characters, shortened.
std::string quoted(const std::string& name);

// "FILE: tensor 'NAME'", for messages.
std::string tensor_place(const std::string& file, const std::string& name);

}  // namespace attnlab
