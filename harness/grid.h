// A grid of text and the four ways to print it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/table.h"

namespace attnlab {

inline constexpr std::size_t kPageWidth = 100;

struct GridColumn {
  std::string group;  // neighbours of one group share a line above their titles; may be empty
  std::string title;
  bool left = false;  // text; numbers are right-aligned
};

// A cell that spans several columns is followed by span - 1 cells that are ignored.
struct GridCell {
  std::string text;
  std::size_t span = 1;
};

struct Grid {
  std::vector<GridColumn> columns;
  std::vector<std::vector<GridCell>> rows;  // (rows, columns)
};

// Aligned plain text, without boxes.
std::string render_plain(const Grid& grid);
// A GitHub table; group and title share one header cell.
std::string render_markdown(const Grid& grid);
// RFC 4180, with a header line; a spanning cell is repeated in each of its columns.
std::string render_csv(const Grid& grid);

// The widest line of a text.
std::size_t width(const std::string& text);

// Breaks text at spaces so that no line is wider than the page; continuation lines are indented.
std::string wrap(const std::string& text, std::size_t indent = 0);

// "table", "markdown", "csv" or "json". Throws UsageError, led by `where`.
TableFormat parse_format(const std::string& text, const std::string& where);

}  // namespace attnlab
