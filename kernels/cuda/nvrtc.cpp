#include "kernels/cuda/nvrtc.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <filesystem>
#include <memory>
#include <stdexcept>

#include "kernels/api/compiler.h"
#include "kernels/cuda/library.h"

namespace attnlab::cuda {
namespace {

// clang-format off
#define ATTNLAB_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion) X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) \
  X(nvrtcCompileProgram) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) X(nvrtcGetCUBINSize) \
  X(nvrtcGetCUBIN)
// clang-format on

struct Nvrtc {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name cannot be put in parentheses
#define ATTNLAB_DECLARE(function) decltype(&::function) function = nullptr;
  ATTNLAB_NVRTC_FUNCTIONS(ATTNLAB_DECLARE)
#undef ATTNLAB_DECLARE
  std::string version;  // "13.0"
  bool caches = false;  // compiled code, on disk, since CUDA 12.9
  std::string build;
  std::filesystem::path path;
};

void check(const Nvrtc& nvrtc, nvrtcResult result, const std::string& what) {
  if (result == NVRTC_SUCCESS) return;
  throw std::runtime_error("NVRTC: " + what + ": " + nvrtc.nvrtcGetErrorString(result));
}

// NVRTC opens it by its name alone, which only finds what is loaded already where the system's
// loader does not know the folder.
void preload_builtins(const Library& library, const std::string& version) {
  const std::string name = "libnvrtc-builtins.so." + version;
  const std::filesystem::path file = library.path().parent_path() / name;
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  const char* words = dlerror();
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return;
  throw MissingLibrary(library.path().string() + " needs " + name +
                       ", which belongs beside it: " + (words == nullptr ? "" : words));
}

Nvrtc open_nvrtc() {
  constexpr const char* kRemedy =
      "Run scripts/setup.sh --cuda, which brings it into .cuda, or name it with --nvrtc FILE";
  const std::string& wanted = compiler_settings().library;
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12"};
  if (!wanted.empty()) names = {std::filesystem::absolute(wanted).string()};
  const Library library(names, kRemedy);
  Nvrtc nvrtc;
#define ATTNLAB_BIND(function) library.bind(nvrtc.function, #function);
  ATTNLAB_NVRTC_FUNCTIONS(ATTNLAB_BIND)
#undef ATTNLAB_BIND
  int major = 0;
  int minor = 0;
  check(nvrtc, nvrtc.nvrtcVersion(&major, &minor), "its version");
  nvrtc.version = std::to_string(major) + "." + std::to_string(minor);
  nvrtc.caches = major > 12 || (major == 12 && minor >= 9);
  preload_builtins(library, nvrtc.version);
  nvrtc.path = library.path();
  // Nothing tells the third number of the version; patches differ in size.
  std::error_code error;
  nvrtc.build =
      nvrtc.version + " of " + std::to_string(std::filesystem::file_size(library.path(), error));
  return nvrtc;
}

const Nvrtc& the_nvrtc() {
  static const Nvrtc nvrtc = open_nvrtc();
  return nvrtc;
}

std::string log_of(const Nvrtc& nvrtc, nvrtcProgram program) {
  std::size_t size = 0;  // with the zero at the end
  check(nvrtc, nvrtc.nvrtcGetProgramLogSize(program, &size), "size of the log");
  std::string log(size, '\0');
  check(nvrtc, nvrtc.nvrtcGetProgramLog(program, log.data()), "the log");
  while (log.ends_with('\0')) log.pop_back();  // ptxas' words end with one of their own
  return log;
}

}  // namespace

std::string nvrtc_version() { return "NVRTC " + the_nvrtc().version; }

std::filesystem::path nvrtc_path() { return the_nvrtc().path; }

std::string nvrtc_build() { return the_nvrtc().build; }

NvrtcResult nvrtc_compile(const std::string& source, const std::string& name,
                          const std::vector<Header>& headers,
                          const std::vector<std::string>& options) {
  const Nvrtc& nvrtc = the_nvrtc();
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const Header& header : headers) {
    names.push_back(header.name.c_str());
    texts.push_back(header.text.c_str());
  }
  nvrtcProgram raw = nullptr;
  check(nvrtc,
        nvrtc.nvrtcCreateProgram(&raw, source.c_str(), name.c_str(),
                                 static_cast<int>(headers.size()), texts.data(), names.data()),
        "creating " + name);
  const auto destroy = [&nvrtc](nvrtcProgram program) { nvrtc.nvrtcDestroyProgram(&program); };
  const std::unique_ptr<_nvrtcProgram, decltype(destroy)> program(raw, destroy);

  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());
  // Code that NVRTC takes from a cache of its own comes without ptxas' words (seen on a machine
  // with a driver, NVRTC 13.0).
  if (nvrtc.caches) arguments.push_back("--no-cache");
  const nvrtcResult result = nvrtc.nvrtcCompileProgram(
      program.get(), static_cast<int>(arguments.size()), arguments.data());
  NvrtcResult compiled{.cubin = "", .log = log_of(nvrtc, program.get())};
  if (result == NVRTC_ERROR_COMPILATION) return compiled;
  check(nvrtc, result, "compiling " + name + (compiled.log.empty() ? "" : ": " + compiled.log));
  std::size_t size = 0;
  check(nvrtc, nvrtc.nvrtcGetCUBINSize(program.get(), &size), "size of the code of " + name);
  compiled.cubin.resize(size);
  check(nvrtc, nvrtc.nvrtcGetCUBIN(program.get(), compiled.cubin.data()), "the code of " + name);
  return compiled;
}

}  // namespace attnlab::cuda
