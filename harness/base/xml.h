// Writes text for XML files. JUnit reports are written by hand, because what XML 1.0 cannot hold at
// all (control characters, bytes that are not UTF-8) must be rewritten by whoever writes it: a
// library would escape it into a file that parsers refuse.
#pragma once

#include <string>
#include <string_view>

namespace attnlab {

// Escapes text for an element or an attribute. It writes what XML cannot hold as \xNN.
std::string xml_escaped(std::string_view text);

}  // namespace attnlab
