// Reads what NVRTC's log (with --ptxas-options=-v) says of the functions of a unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace attnlab::cuda {

struct FunctionFacts {
  std::string name;  // mangled where it is not extern "C"
  bool is_entry = false;
  int registers = 0;  // a thread; of entries alone
  std::int64_t stack_bytes = 0;
  std::int64_t spill_store_bytes = 0;
  std::int64_t spill_load_bytes = 0;
  std::int64_t static_shared_bytes = 0;
};

struct CompileLog {
  std::vector<FunctionFacts> functions;  // a device function that was not inlined has its own
  // It lists "C7508: ..." once each, with "(7 times)" for those that differ in the line number
  // alone; and the warnings of compiler and assembler.
  std::vector<std::string> advisories;
};

// Lines that it does not know are left out.
CompileLog parse_compile_log(std::string_view log);

// Returns why a unit that must be clean is not: spills, and advisories that cost speed (setmaxnreg
// ignored: C7508; wgmma serialised: C7510, C7511, C7515; waits and arrives injected around it:
// C7517, C7519). Each has a line; empty if it is clean.
std::string impurities(const CompileLog& log);

}  // namespace attnlab::cuda
