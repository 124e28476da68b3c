// Says how wide the text is that people read: tables, lists, help.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>

namespace attnlab {

inline constexpr std::size_t kPageWidth = 100;  // where no terminal says otherwise

// Returns the columns that text may take: the terminal's once run_command_line() has set them, else
// kPageWidth, so that the same data gives the same text in every file and test.
std::size_t page_width();
void set_page_width(std::optional<std::size_t> columns);

// Returns page_width(), but no more than sentences may have to be read with ease.
std::size_t prose_width();

// Returns the terminal's columns; no limit without one, so that a table in a file is not split.
std::size_t most_columns();

// Returns $COLUMNS, else the width that the terminal of the stream reports (80 if it reports none),
// at least 40; nothing where the stream is no terminal.
std::optional<std::size_t> columns_of(std::FILE* stream);

}  // namespace attnlab
