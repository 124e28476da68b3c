// How wide the text is that people read: tables, lists, help.
#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>

namespace attnlab {

inline constexpr std::size_t kPageWidth = 100;  // where no terminal says otherwise

// The columns that text may take: the terminal's, once run_command_line() has set them, else
// kPageWidth, so that what is made of the same data is the same in every file and test.
std::size_t page_width();
void set_page_width(std::optional<std::size_t> columns);

// page_width(), but no more than can be read with ease: of sentences.
std::size_t prose_width();

// The terminal's columns; no end where there is none: a table in a file is not torn.
std::size_t most_columns();

// $COLUMNS, else what the terminal says that the stream is (80 where it does not), at least 40;
// nothing where it is none.
std::optional<std::size_t> columns_of(std::FILE* stream);

}  // namespace attnlab
