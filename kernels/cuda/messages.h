// Says what compile_ahead() and its workers tell each other, as bytes, each behind its length.
#pragma once

#include <optional>
#include <string>

#include "kernels/api/compiler.h"

namespace attnlab::cuda {

std::string to_bytes(const CompilerSettings& settings);
std::string to_bytes(const CompileJob& job);
std::string to_bytes(const Compilation& compilation);

// These throw std::out_of_range where the bytes are not whole.
CompilerSettings settings_of(const std::string& bytes);
CompileJob job_of(const std::string& bytes);
Compilation compilation_of(const std::string& bytes);

// Return false, or nothing, where the other side is gone or what it sends is no message.
bool send_message(int descriptor, const std::string& bytes);
std::optional<std::string> receive_message(int descriptor);

}  // namespace attnlab::cuda
