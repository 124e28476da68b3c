// Implements the command line: verbs, flags, help texts. Only harness/cli knows CLI11.
#pragma once

namespace attnlab {

// Parses and runs; returns the process's exit code (harness/base/errors.h). Prints errors to
// stderr; output that could not be written is one of them.
int run_command_line(int argc, const char* const* argv);

}  // namespace attnlab
