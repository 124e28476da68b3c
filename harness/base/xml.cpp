#include "harness/base/xml.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace attnlab {
namespace {

// Returns the bytes of the UTF-8 character that begins here, 0 if there is none. Source: RFC 3629.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80          ? 1
                             : byte(0) >> 5U == 0x06 ? 2
                             : byte(0) >> 4U == 0x0E ? 3
                             : byte(0) >> 3U == 0x1E ? 4
                                                     : 0;
  if (length == 0 || length > text.size()) return 0;
  std::uint32_t code = length == 1 ? byte(0) : byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6U != 0x02) return 0;
    code = code << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::uint32_t kFirstOfLength[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_character = code >= kFirstOfLength[length] && code <= 0x10FFFF &&
                            (code < 0xD800 || code > 0xDFFF) && code != 0xFFFE && code != 0xFFFF;
  return is_character ? length : 0;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const char c = text[i];
    const bool is_control = length == 1 && static_cast<unsigned char>(c) < 0x20;
    if (length == 0 || (is_control && c != '\n' && c != '\t')) {
      result += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
      ++i;
      continue;
    }
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      case '\n': result += "&#10;"; break;
      case '\t': result += "&#9;"; break;
      default: result += text.substr(i, length);
    }
    i += length;
  }
  return result;
}

}  // namespace attnlab
