// Prints what the program says. Nothing that is lost on its way to standard output goes unnoticed,
// and no file that it opens gets the number of a standard stream.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace attnlab {

// Must be called first in main(). Opens /dev/null in place of each standard stream that is closed;
// ends the process where that cannot be. Makes a write beyond a limit on the size of files an
// error, as on a full disk, instead of a signal.
void prepare_output();

void write_text(std::FILE* stream, const std::string& text);

// fmt::print() throws where a disk is full, and so could end a run that has records to save. This
// one leaves it to flush_standard_output() to tell.
template <class... T>
void print_to(std::FILE* stream, fmt::format_string<T...> format, T&&... arguments) {
  write_text(stream, fmt::format(format, std::forward<T>(arguments)...));
}

// Returns why some of what was printed could not be written, "" if all was.
std::string flush_standard_output();

}  // namespace attnlab
