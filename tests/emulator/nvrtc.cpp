// Is a libnvrtc that compiles kernels for the emulated GPU: with the host's C++ compiler, whose
// result, a shared library, takes the place of a cubin. Instructions come from overlay/, which the
// compiler searches before the tree's headers; CUDA's words from prelude.h.
#include <cuda.h>
#include <dlfcn.h>
#include <nvrtc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "tests/test_folder.h"

namespace {

namespace fs = std::filesystem;

struct Program {
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::string log;
  std::string library;
};

Program& program_of(nvrtcProgram program) { return *reinterpret_cast<Program*>(program); }

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

// extern __shared__ ... u8 memory[]; has no place of its own here.
std::string with_shared_memory(const std::string& text) {
  static const std::regex declaration(
      R"(extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];)");
  return std::regex_replace(
      text, declaration,
      "$1* const $2 = reinterpret_cast<$1*>(::attnlab::emulator::dynamic_shared());");
}

std::vector<std::string> entries_of(const std::string& source) {
  static const std::regex entry(
      R"(__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\()");
  std::vector<std::string> names;
  for (auto found = std::sregex_iterator(source.begin(), source.end(), entry);
       found != std::sregex_iterator(); ++found) {
    names.push_back((*found)[1]);
  }
  return names;
}

// Returns the path of the emulated driver that kernels link: it lies beside this library.
fs::path driver_path() {
  Dl_info info;
  dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &info);
  return fs::absolute(info.dli_fname).parent_path() / "libcuda.so.1";
}

std::string quoted(const fs::path& path) { return "'" + path.string() + "'"; }

bool compile(Program& program) {
  const attnlab::TestFolder folder;
  if (folder.path().empty()) {
    program.log = "no folder for temporary files";
    return false;
  }
  const fs::path headers = folder.path() / "headers";
  for (const auto& [name, text] : program.headers) {
    write(headers / name, with_shared_memory(text));
  }
  std::string source = with_shared_memory(program.source);
  for (const std::string& name : entries_of(program.source)) {
    source.append("\nextern \"C\" void emulated_").append(name);
    source.append("(void** parameters) {\n  attnlab::emulator::call(").append(name);
    source.append(", parameters);\n}\n");
    program.log.append("ptxas info    : Compiling entry function '").append(name);
    program.log.append("' for 'sm_90a'\nptxas info    : Function properties for ").append(name);
    program.log.append("\n");
  }
  const fs::path library = folder.path() / "unit.so";
  const fs::path words = folder.path() / "words";
  write(folder.path() / "unit.cpp", source);
  fs::create_directory_symlink(ATTNLAB_SOURCE_DIR, folder.path() / "tree");
  // Compiles as for ThreadSanitizer, but links without it: machine.cpp hears of the accesses. Every
  // path is relative to the folder, so that ccache knows what another folder or clone compiled.
  const std::string command =
      "cd " + quoted(folder.path()) +
      " && " ATTNLAB_CXX
      " -std=c++20 -O1 -w -fPIC -fno-strict-aliasing -fsanitize=thread"
      " -include tree/tests/emulator/prelude.h -I tree/tests/emulator/overlay -I headers -I tree"
      " -c unit.cpp -o unit.o 2>words && " ATTNLAB_CXX " -shared unit.o -o unit.so " +
      quoted(driver_path()) + " 2>>words";
  const bool compiled = std::system(command.c_str()) == 0;
  if (compiled) {
    program.library = read(library);
  } else {
    program.log = read(words);
  }
  return compiled;
}

void copy_with_zero(const std::string& text, char* to) {
  std::memcpy(to, text.c_str(), text.size() + 1);
}

}  // namespace

// Parameters have this project's names, not those of the headers.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = CUDA_VERSION / 1000;
  *minor = CUDA_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}

const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "success" : "the emulator's compiler failed";
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*,
                               int num_headers, const char* const* headers,
                               const char* const* names) {
  auto made = new Program{.source = source, .headers = {}, .log = "", .library = ""};
  for (int i = 0; i < num_headers; ++i) made->headers.emplace_back(names[i], headers[i]);
  *program = reinterpret_cast<nvrtcProgram>(made);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete &program_of(*program);
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int, const char* const*) {
  return compile(program_of(program)) ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  *size = program_of(program).log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
  copy_with_zero(program_of(program).log, log);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  *size = program_of(program).library.size();
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
  std::memcpy(cubin, program_of(program).library.data(), program_of(program).library.size());
  return NVRTC_SUCCESS;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
