// Reads the JSON header of a safetensors file, without comparing it with the file's bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attnlab {

// These limit reader and writer. The header's limit is that of the format's own implementation.
inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
inline constexpr std::size_t kMostDimensions = 32;
inline constexpr std::uint64_t kHeaderStart = 8;  // behind the header's length
inline constexpr const char* kMetadataKey = "__metadata__";

using Metadata = std::map<std::string, std::string>;

// Describes one tensor. A header that was parsed has every field, and two offsets.
struct HeaderEntry {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::int64_t>> offsets;  // begin, end
};

struct Header {
  std::map<std::string, HeaderEntry> entries;
  std::optional<Metadata> metadata;
};

// Parses a header. Throws UsageError, led by `file`, for what is no JSON and for any value that the
// format does not expect at its place.
Header parse_header(const std::string& text, const std::string& file);

// Returns a file's name of something as messages show it: quoted, shortened, no control characters.
std::string quoted(const std::string& name);

// Returns "FILE: tensor 'NAME'", for messages.
std::string tensor_place(const std::string& file, const std::string& name);

}  // namespace attnlab
