// Is libcuda.so.1 with an emulated GPU: what this project calls of the driver API. Modules are
// shared libraries that nvrtc.cpp makes; launches run at once, on the host's threads.
#include <cuda.h>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "kernels/shared/base.h"
#include "tests/emulator/launch.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/tensor_box.h"

namespace {

using attnlab::u32;
using attnlab::u64;
namespace emulator = attnlab::emulator;

constexpr int kDevice = 0;
constexpr u64 kMemoryBytes = u64{8} << 30;

struct Module {
  void* library;
  std::map<std::string, std::unique_ptr<struct Function>> functions;
};

struct Function {
  void (*entry)(void** parameters);
};

// Returns the words of the last failure, for cuGetErrorString.
std::string& last_words() {
  static std::string words;
  return words;
}

u64 seed() {
  static const u64 first = [] {
    const char* const text = std::getenv("ATTNLAB_EMULATOR_SEED");
    return text == nullptr ? u64{1} : std::strtoull(text, nullptr, 10);
  }();
  static std::atomic<u64> launches = 0;
  return first * 0x9E3779B97F4A7C15ul + launches++;
}

// Returns the size of a whole library in memory. Linkers write the table of sections last.
std::size_t size_of_library(const void* image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  return header.e_shoff + std::size_t{header.e_shnum} * header.e_shentsize;
}

// Says what the program does, for tests, in the file that ATTNLAB_EMULATED_LOG names.
void log(const char* what) {
  static const char* const file = std::getenv("ATTNLAB_EMULATED_LOG");
  if (file != nullptr) std::ofstream(file, std::ios::app) << what << "\n";
}

CUresult failed(CUresult result, const std::string& words) {
  last_words() = words;
  return result;
}

// Where nothing is under way, streams and events need no state beyond a time.
struct Event {
  std::chrono::steady_clock::time_point time;
};

CUresult copy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

u32 swizzle_bytes(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B: return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B: return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B: return 128;
    default: return 0;
  }
}

}  // namespace

// Parameters have this project's names, not those of the headers.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult result, const char** name) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_LAUNCH_FAILED: *name = "CUDA_ERROR_LAUNCH_FAILED"; break;
    case CUDA_ERROR_NOT_FOUND: *name = "CUDA_ERROR_NOT_FOUND"; break;
    case CUDA_ERROR_NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; break;
    default: *name = "an error of the emulated driver";
  }
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = last_words().c_str();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal != kDevice) return failed(CUDA_ERROR_INVALID_DEVICE, "there is one emulated GPU");
  *device = kDevice;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(size), "emulated GPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice) {
  *bytes = kMemoryBytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice) {
  std::snprintf(id, static_cast<std::size_t>(size), "none");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
  *uuid = {};
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = static_cast<int>(emulator::multiprocessors());
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = static_cast<int>(emulator::kSharedBytes);
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 1 << 20; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1'000'000; break;  // kHz
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  static int the_context;
  *context = reinterpret_cast<CUcontext>(&the_context);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }

CUresult cuMemAlloc(CUdeviceptr* data, std::size_t bytes) {
  if (bytes > kMemoryBytes) return failed(CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (memory == nullptr) return failed(CUDA_ERROR_OUT_OF_MEMORY, "out of memory");
  *data = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr data) {
  std::free(reinterpret_cast<void*>(data));
  return CUDA_SUCCESS;
}

// Its memory is this process's own.
CUresult cuMemGetAddressRange(CUdeviceptr*, std::size_t*, CUdeviceptr) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle*, CUdeviceptr) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult cuMemHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *data == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* on_device, void* data, unsigned) {
  *on_device = reinterpret_cast<CUdeviceptr>(data);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream) {
  return copy(to, reinterpret_cast<CUdeviceptr>(from), bytes);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return copy(reinterpret_cast<CUdeviceptr>(to), from, bytes);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream) {
  return copy(to, from, bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr data, unsigned char value, std::size_t bytes, CUstream) {
  std::memset(reinterpret_cast<void*>(data), value, bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemsetD32Async(CUdeviceptr data, unsigned value, std::size_t words, CUstream) {
  for (std::size_t i = 0; i < words; ++i) reinterpret_cast<unsigned*>(data)[i] = value;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  static int the_stream;
  *stream = reinterpret_cast<CUstream>(&the_stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream) { return CUDA_SUCCESS; }

CUresult cuStreamBeginCapture(CUstream, CUstreamCaptureMode) {
  return failed(CUDA_ERROR_NOT_SUPPORTED, "the emulated GPU records no graphs");
}
CUresult cuStreamEndCapture(CUstream, CUgraph*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec*, CUgraph, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuGraphLaunch(CUgraphExec, CUstream) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphExecDestroy(CUgraphExec) { return CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
CUresult cuGraphGetNodes(CUgraph, CUgraphNode*, std::size_t*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphNodeGetType(CUgraphNode, CUgraphNodeType*) { return CUDA_ERROR_NOT_SUPPORTED; }
CUresult cuGraphKernelNodeGetParams(CUgraphNode, CUDA_KERNEL_NODE_PARAMS*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuEventCreate(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(new Event());
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream) {
  reinterpret_cast<Event*>(event)->time = std::chrono::steady_clock::now();
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  const std::chrono::duration<float, std::milli> elapsed =
      reinterpret_cast<Event*>(end)->time - reinterpret_cast<Event*>(begin)->time;
  *milliseconds = elapsed.count();
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  const int file = memfd_create("kernels", MFD_CLOEXEC);
  const std::size_t bytes = size_of_library(image);
  if (file < 0 || write(file, image, bytes) != static_cast<ssize_t>(bytes)) {
    return failed(CUDA_ERROR_OUT_OF_MEMORY, "no room for a module");
  }
  // The file stays open: another one of its number would be taken for the same library.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return failed(CUDA_ERROR_INVALID_IMAGE, dlerror());
  *module = reinterpret_cast<CUmodule>(new Module{.library = library, .functions = {}});
  return CUDA_SUCCESS;
}

// Threads of the host keep what they have of a module's __shared__ variables.
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  auto& module = *reinterpret_cast<Module*>(handle);
  std::unique_ptr<Function>& found = module.functions[name];
  if (found == nullptr) {
    void* const entry = dlsym(module.library, (std::string("emulated_") + name).c_str());
    if (entry == nullptr) return failed(CUDA_ERROR_NOT_FOUND, "the module has no such kernel");
    found = std::make_unique<Function>(Function{reinterpret_cast<void (*)(void**)>(entry)});
  }
  *function = reinterpret_cast<CUfunction>(found.get());
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
      value > static_cast<int>(emulator::kSharedBytes)) {
    return failed(CUDA_ERROR_INVALID_VALUE, "more shared memory than a block may have");
  }
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                          void**) {
  bool starts_early = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    starts_early |= attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
        attribute.value.clusterDim.x != 1) {
      return failed(CUDA_ERROR_NOT_SUPPORTED, "the emulated GPU has no clusters");
    }
  }
  log("launch");
  const std::string error = emulator::run({.entry = reinterpret_cast<Function*>(function)->entry,
                                           .parameters = parameters,
                                           .blocks = config->gridDimX,
                                           .threads = static_cast<int>(config->blockDimX),
                                           .shared_bytes = config->sharedMemBytes,
                                           .seed = seed(),
                                           .starts_early = starts_early});
  return error.empty() ? CUDA_SUCCESS : failed(CUDA_ERROR_LAUNCH_FAILED, error);
}

// They are declared in cudaProfiler.h, which is not here.
// NOLINTBEGIN(readability-identifier-naming)
CUresult cuProfilerStart() {
  log("profiler start");
  return CUDA_SUCCESS;
}

CUresult cuProfilerStop() {
  log("profiler stop");
  return CUDA_SUCCESS;
}
// NOLINTEND(readability-identifier-naming)

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dimensions,
                                void* data, const cuuint64_t* extents, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  emulator::TensorMapBits bits = {};
  bits.magic = emulator::kTensorMapMagic;
  bits.data = reinterpret_cast<u64>(data);
  bits.dimensions = dimensions;
  bits.element_bytes = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32 ? 4
                       : type == CU_TENSOR_MAP_DATA_TYPE_UINT8 ? 1
                                                               : 2;
  bits.swizzle_bytes = swizzle_bytes(swizzle);
  for (cuuint32_t i = 0; i < dimensions; ++i) {
    bits.extents[i] = static_cast<u32>(extents[i]);
    bits.box[i] = static_cast<attnlab::u16>(box[i]);
    if (i > 0) bits.strides[i - 1] = strides[i - 1];
  }
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &bits, sizeof bits);
  return CUDA_SUCCESS;
}

}  // extern "C"
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
