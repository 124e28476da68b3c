// A text table is printed in one of four ways.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/base/page.h"

namespace attnlab {

enum class TableFormat { table, markdown, csv, json };

struct TextColumn {
  std::string group;  // neighbours of one group share a line above their titles; may be empty
  std::string title;
  bool left = false;  // text; numbers are right-aligned
  bool key = false;   // tells rows apart, so it stands in every part of a wide table
};

// A cell that spans several columns is followed by span - 1 cells that are ignored.
struct TextCell {
  std::string text;
  std::size_t span = 1;
  char mark = ' ';  // before the text, for people; takes no room: plain text has it in the gap
};

struct TextTable {
  std::vector<TextColumn> columns;
  std::vector<std::vector<TextCell>> rows;  // (rows, columns)
};

// Renders aligned plain text, without boxes. A table wider than the terminal comes in parts, one
// below the other, each with the keys (the first column is one), or else with row numbers.
std::string render_plain(const TextTable& table);
// Returns the columns that render_plain() takes where there is room for all of the table.
std::size_t width(const TextTable& table);
// Renders a GitHub table; group and title share one header cell.
std::string render_markdown(const TextTable& table);
// Renders RFC 4180, with a header line; a spanning cell is repeated in each of its columns.
std::string render_csv(const TextTable& table);

// Collects the distinct reasons behind the marks of a table, numbered from 1.
class Footnotes {
 public:
  // Returns "skipped [2]"; just the word if there is no reason.
  std::string mark(const std::string& word, const std::string& reason);
  // Returns one line for each reason: "[1] ...".
  std::string text() const;

 private:
  std::vector<std::string> reasons_;
};

// Returns the width of the widest line of a text.
std::size_t width(const std::string& text);

// Puts words on lines of so many columns, where that is possible; words may hold spaces, which
// stay. Continuation lines are indented, unless that would push a long word beyond the line.
std::string fill(const std::vector<std::string>& words, std::size_t indent,
                 std::size_t columns = prose_width());

// Applies fill() to the text's words.
std::string wrap(const std::string& text, std::size_t indent = 0,
                 std::size_t columns = prose_width());

// Returns "1 case", "2 cases".
std::string count_of(std::size_t count, const std::string& noun);

// Reads "table", "markdown", "csv" or "json". Throws UsageError, led by `where`.
TableFormat parse_format(const std::string& text, const std::string& where);

}  // namespace attnlab
