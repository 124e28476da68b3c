#include "kernels/cuda/cupti.h"

#include <dlfcn.h>

#include "kernels/cuda/library.h"

namespace attnlab::cuda {
namespace {

constexpr const char* kRemedy =
    "It comes with the CUDA toolkit and with scripts/setup.sh --cuda; without it attnlab run "
    "--counters off measures time and memory all the same";

// CUPTI opens it by its name alone, which only finds what is loaded already where the system's
// loader does not know the folder.
void preload_metrics(const Library& library) {
  const std::string name = "libnvperf_host.so";
  const std::filesystem::path file = library.path().parent_path() / name;
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  const char* words = dlerror();
  if (dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  throw MissingLibrary(library.path().string() + " needs " + name +
                       ", which belongs beside it: " + (words == nullptr ? "" : words));
}

Cupti open_cupti() {
#ifdef __SANITIZE_ADDRESS__
  throw MissingLibrary(
      "CUPTI's libraries cannot be loaded into a build with AddressSanitizer (RTLD_DEEPBIND): "
      "count with another build");
#endif
  const Library library({"libcupti.so.13", "libcupti.so.12"}, kRemedy);
  preload_metrics(library);
  Cupti functions;
#define ATTNLAB_BIND(function) library.bind(functions.function, #function);
  ATTNLAB_CUPTI_FUNCTIONS(ATTNLAB_BIND)
#undef ATTNLAB_BIND
  functions.path = library.path();
  std::uint32_t version = 0;  // 130001: 13.0.1
  check(functions.cuptiGetVersion(&version), "reading CUPTI's version");
  functions.version = std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
                      "." + std::to_string(version % 100);
  return functions;
}

// Returns the way out if there is one. Source: CUPTI's documentation of CUptiResult; what was seen.
std::string remedy_of(CUptiResult result) {
  switch (result) {
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      return "; run as root or with CAP_SYS_ADMIN, or let everybody count: load the driver with "
             "NVreg_RestrictProfilingToAdminUsers=0 (RmProfilingAdminOnly: 0 in "
             "/proc/driver/nvidia/params says that it is so)";
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "; the hypervisor must permit profiling of this virtual GPU: ask who runs it";
    case CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED:
      return "; a GPU in confidential-computing mode has no counters: use one that is not";
    case CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED:
      return "; a MIG slice has no counters of its own: use a whole GPU";
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_HARDWARE_BUSY:
      return "; another profiler has the counters (ncu and nsys do): run without it, or take its "
             "figures";
    default: return "";
  }
}

std::string words(CUptiResult result) {
  const char* text = nullptr;
  if (cupti().cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) text = "?";
  return std::string(text) + " (" + std::to_string(static_cast<int>(result)) + ")";
}

}  // namespace

CuptiError::CuptiError(CUptiResult result, const std::string& what)
    : std::runtime_error("CUPTI: " + what + ": " + words(result) + remedy_of(result)) {}

const Cupti& cupti() {
  static const Cupti functions = open_cupti();
  return functions;
}

}  // namespace attnlab::cuda
