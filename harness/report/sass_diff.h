// Prints two compiled units beside one another, for `attnlab sass UNIT --diff OTHER`.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "harness/base/text_table.h"
#include "harness/report/sass_unit.h"

namespace attnlab {

inline constexpr const char* kSassDiffSchema = "attnlab.sass-diff/1";

// Holds a line of text in both; where only one of them has it, the other's line number and counts
// are 0. Lines are the same where file and text are: numbers shift when text above them is edited.
struct SassLinePair {
  std::string file, text;
  std::array<int, 2> lines = {};
  std::array<KindCounts, 2> kinds = {};
  std::array<std::size_t, 2> all = {};
};

// Returns those lines whose counts differ, by file and line.
std::vector<SassLinePair> differing_lines(const std::vector<SassLine>& unit,
                                          const std::vector<SassLine>& other);

// Renders kernels of one name beside one another. table and markdown have counts by kind, products,
// and the lines that differ; json the same with all kinds; csv a row for each kind of each line
// that differs.
std::string render_sass_diff(const SassUnit& unit, const SassUnit& other, TableFormat format);

}  // namespace attnlab
