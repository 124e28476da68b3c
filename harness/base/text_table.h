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

// Aligned plain text, without boxes. What is wider than the terminal comes in parts, one below
// the other, each with the first column and the other keys; where these are too wide, row numbers.
std::string render_plain(const TextTable& table);
// What render_plain() takes where there is room for all columns.
std::size_t width(const TextTable& table);
// A GitHub table; group and title share one header cell.
std::string render_markdown(const TextTable& table);
// RFC 4180, with a header line; a spanning cell is repeated in each of its columns.
std::string render_csv(const TextTable& table);

// The distinct reasons behind the marks of a table, numbered from 1.
class Footnotes {
 public:
  // "skipped [2]"; just the word if there is no reason.
  std::string mark(const std::string& word, const std::string& reason);
  // One line for each reason: "[1] ...".
  std::string text() const;

 private:
  std::vector<std::string> reasons_;
};

// The widest line of a text.
std::size_t width(const std::string& text);

// Words on lines of so many columns, where that can be; words may hold spaces, which are kept.
// Continuation lines are indented, as far as that leaves a long word within the line.
std::string fill(const std::vector<std::string>& words, std::size_t indent,
                 std::size_t columns = prose_width());

// fill() of the text's words.
std::string wrap(const std::string& text, std::size_t indent = 0,
                 std::size_t columns = prose_width());

// "1 case", "2 cases"
std::string count_of(std::size_t count, const std::string& noun);

// "table", "markdown", "csv" or "json". Throws UsageError, led by `where`.
TableFormat parse_format(const std::string& text, const std::string& where);

}  // namespace attnlab
