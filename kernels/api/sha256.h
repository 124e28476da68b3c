// Checks with SHA-256 that files are those that were written. A library for 60 lines would be one
// more package on every machine.
#pragma once

#include <string>
#include <string_view>

namespace attnlab {

// Returns the digest in 64 hexadecimal digits. Source: FIPS 180-4, section 6.2.
std::string sha256(std::string_view bytes);

}  // namespace attnlab
