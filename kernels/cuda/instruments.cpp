#include "kernels/cuda/instruments.h"

#include <atomic>
#include <new>

#include "kernels/cuda/driver.h"

namespace attnlab::cuda {
namespace {

constexpr int kMemoryThreads = 256;  // of kernels that go through memory
constexpr std::uint64_t kChunkBytes = 16;

KernelUnit instruments_unit() {
  return {.name = "instruments",
          .source = R"(#include "kernels/device/instruments.cuh"
using namespace attnlab;
extern "C" __global__ void spin(u64 nanoseconds, u64 cycles, instruments::SpinReport* report) {
  instruments::spin(nanoseconds, cycles, report);
}
extern "C" __global__ void fingerprint(const u8* data, u64 bytes, u64* sum) {
  instruments::fingerprint(data, bytes, sum);
}
extern "C" __global__ void count_filled(const u8* data, u64 bytes, u32 filled, u32 element_bytes,
                                        u64* sum) {
  instruments::count_filled(data, bytes, filled, element_bytes, sum);
}
extern "C" __global__ void noise(uint4* data, u64 chunks) {
  instruments::noise(data, chunks);
}
extern "C" __global__ void copy(const uint4* from, uint4* to, u64 chunks) {
  instruments::copy(from, to, chunks);
}
)",
          .entries = {{.name = "spin", .threads = 1},
                      {.name = "fingerprint", .threads = kMemoryThreads},
                      {.name = "count_filled", .threads = kMemoryThreads},
                      {.name = "noise", .threads = kMemoryThreads},
                      {.name = "copy", .threads = kMemoryThreads}}};
}

}  // namespace

// Page holds SpinReport of instruments.cuh, and the sum.
struct Instruments::Page {
  std::uint64_t cycles;
  std::uint64_t nanoseconds;
  std::uint32_t ended;
  std::uint64_t sum;
};

Instruments::Instruments(const Device& device)
    : module_(load(instruments_unit(), device)),
      spin_(module_->function("spin")),
      fingerprint_(module_->function("fingerprint")),
      count_filled_(module_->function("count_filled")),
      noise_(module_->function("noise")),
      copy_(module_->function("copy")),
      blocks_(static_cast<unsigned>(4 * device.multiprocessors)) {
  void* page = nullptr;
  check(driver().cuMemHostAlloc(&page, sizeof(Page), CU_MEMHOSTALLOC_DEVICEMAP),
        "allocating memory that the GPU sees");
  page_ = new (page) Page{};
  page_->ended = 1;
  check(driver().cuMemHostGetDevicePointer(&device_page_, page, 0),
        "allocating memory that the GPU sees");
  check(driver().cuMemAlloc(&sum_, sizeof page_->sum), "allocating memory on the GPU");
}

Instruments::~Instruments() = default;  // as the process ends; the driver takes the page

void Instruments::spin(CUstream stream, double seconds, std::uint64_t cycles) {
  std::atomic_ref(page_->ended).store(0);
  auto nanoseconds = static_cast<std::uint64_t>(1e9 * seconds);
  CUdeviceptr report = device_page_;
  void* arguments[] = {&nanoseconds, &cycles, &report};
  const CUlaunchConfig config{.gridDimX = 1,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = 1,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .hStream = stream};
  check(driver().cuLaunchKernelEx(&config, spin_, arguments, nullptr), "launching a spin");
}

bool Instruments::spin_has_ended() const { return std::atomic_ref(page_->ended).load() != 0; }
double Instruments::spin_seconds() const { return 1e-9 * static_cast<double>(page_->nanoseconds); }
std::uint64_t Instruments::spin_cycles() const { return page_->cycles; }

// Launches many blocks of one size, for kernels that go through memory with a stride of the grid.
void Instruments::launch(CUfunction function, const char* name, CUstream stream,
                         void** arguments) const {
  const CUlaunchConfig config{.gridDimX = blocks_,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = kMemoryThreads,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .hStream = stream};
  check(driver().cuLaunchKernelEx(&config, function, arguments, nullptr),
        std::string("launching a ") + name);
}

void Instruments::noise(CUstream stream, void* data, std::uint64_t bytes) {
  auto target = reinterpret_cast<CUdeviceptr>(data);
  std::uint64_t chunks = bytes / kChunkBytes;
  void* arguments[] = {&target, &chunks};
  launch(noise_, "noise", stream, arguments);
}

void Instruments::copy(CUstream stream, const void* from, void* to, std::uint64_t bytes) {
  auto source = reinterpret_cast<CUdeviceptr>(from);
  auto target = reinterpret_cast<CUdeviceptr>(to);
  std::uint64_t chunks = bytes / kChunkBytes;
  void* arguments[] = {&source, &target, &chunks};
  launch(copy_, "copy", stream, arguments);
}

void Instruments::fingerprint(CUstream stream, const void* data, std::uint64_t bytes) {
  auto from = reinterpret_cast<CUdeviceptr>(data);
  void* arguments[] = {&from, &bytes, &sum_};
  add_up(fingerprint_, "fingerprint", stream, arguments);
}

void Instruments::count_filled(CUstream stream, const void* data, std::uint8_t byte,
                               std::uint64_t bytes, int element_bytes) {
  auto from = reinterpret_cast<CUdeviceptr>(data);
  std::uint32_t filled = byte * std::uint32_t{0x01010101};
  auto size = static_cast<std::uint32_t>(element_bytes);
  void* arguments[] = {&from, &bytes, &filled, &size, &sum_};
  add_up(count_filled_, "count", stream, arguments);
}

// Runs a kernel that adds to the sum, from zero.
void Instruments::add_up(CUfunction function, const char* name, CUstream stream,
                         void** arguments) const {
  check(driver().cuMemsetD32Async(sum_, 0, 2, stream), "clearing a sum");
  launch(function, name, stream, arguments);
  check(driver().cuMemcpyDtoHAsync(&page_->sum, sum_, sizeof page_->sum, stream), "copying a sum");
}

std::uint64_t Instruments::last_sum() const { return page_->sum; }

}  // namespace attnlab::cuda
