// Reads comma-separated values of other programs, as RFC 4180 has them.
#pragma once

#include <string>
#include <vector>

namespace attnlab {

using CsvRow = std::vector<std::string>;

// Reads rows, each of as many fields as the first; lines may end with or without a carriage return.
// Throws UsageError, led by `where` and the line, for a row of another number of fields, a quote
// that stands or is left open where none may, and a last line without its end: half a file.
std::vector<CsvRow> parse_csv(const std::string& text, const std::string& where);

}  // namespace attnlab
