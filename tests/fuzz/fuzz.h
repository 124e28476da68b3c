// Declares one fuzz target: a reader of files, fed with arbitrary bytes.
#pragma once

#include <filesystem>

namespace attnlab::fuzz {

// Reads the file; a target defines it. It may throw UsageError, whose message names the file, and
// nothing else; and it may abort where the reader's answer contradicts itself.
void read_input(const std::filesystem::path& file);

// Ends the process as a finding, with a sentence that says what is wrong.
void require(bool holds, const char* sentence);

}  // namespace attnlab::fuzz
