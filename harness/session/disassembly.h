// Compiles a unit and takes it apart with NVIDIA's nvdisasm, which needs no GPU.
#pragma once

#include <string>

#include "harness/report/sass_unit.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Returns the path of nvdisasm. Throws std::runtime_error with the remedy where there is none.
std::string find_nvdisasm();

// Returns what `nvdisasm` prints of a cubin: its code, with line info. Throws std::runtime_error
// with its words where it fails.
std::string disassemble(const std::string& nvdisasm, const std::string& cubin);

// Compiles a job with the settings of the compiler, or takes it from the cache, and reads it. A
// unit that does not compile has no kernels, and its compilation says why; one that is not clean
// has them. Throws std::runtime_error like compile_ahead() and disassemble().
SassUnit take_apart(const CompileJob& job, const std::string& nvdisasm, bool shows_progress);

}  // namespace attnlab
