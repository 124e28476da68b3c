#include "kernels/cuda/kernel_trace.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "kernels/api/runtime.h"
#include "kernels/cuda/cupti.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/runtime.h"

namespace attnlab::cuda {
namespace {

// It is the newest that the headers know; fields are only ever added behind those read here.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif

constexpr std::size_t kBufferBytes = std::size_t{1} << 18;
constexpr std::align_val_t kBufferAlignment{8};  // of activity records

std::string demangle(const char* symbol) {
  if (symbol == nullptr) return "?";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 && name ? name.get() : symbol;
}

ExecutedKernel describe(const KernelRecord& record) {
  ExecutedKernel kernel{.symbol = demangle(record.name), .registers = record.registersPerThread};
  const std::int32_t grid[] = {record.gridX, record.gridY, record.gridZ};
  const std::int32_t block[] = {record.blockX, record.blockY, record.blockZ};
  std::copy(std::begin(grid), std::end(grid), kernel.grid);
  std::copy(std::begin(block), std::end(block), kernel.block);
  kernel.static_shared_bytes = static_cast<std::uint64_t>(record.staticSharedMemory);
  kernel.dynamic_shared_bytes = static_cast<std::uint64_t>(record.dynamicSharedMemory);
  kernel.shared_bytes = *kernel.static_shared_bytes + *kernel.dynamic_shared_bytes;
  kernel.seconds = static_cast<double>(record.end - record.start) * 1e-9;
  return kernel;
}

bool is_same_launch(const ExecutedKernel& a, const ExecutedKernel& b) {
  return a.symbol == b.symbol && std::ranges::equal(a.grid, b.grid) &&
         std::ranges::equal(a.block, b.block) && a.registers == b.registers &&
         a.dynamic_shared_bytes == b.dynamic_shared_bytes;
}

// CUPTI's callbacks fill the one Records, on threads of its own: they take no argument to name it.
class Records {
 public:
  static Records& instance() {
    static Records records;
    return records;
  }

  static void CUPTIAPI request(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
    *buffer = static_cast<std::uint8_t*>(::operator new(kBufferBytes, kBufferAlignment));
    *size = kBufferBytes;
    *records = 0;  // as many as fit
  }

  static void CUPTIAPI complete(CUcontext /*context*/, std::uint32_t /*stream*/,
                                std::uint8_t* buffer, std::size_t /*size*/, std::size_t valid) {
    instance().read(buffer, valid);
    ::operator delete(buffer, kBufferAlignment);
  }

  std::vector<std::pair<std::uint64_t, ExecutedKernel>> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(kernels_, {});
  }

 private:
  void read(std::uint8_t* buffer, std::size_t valid) {
    const std::scoped_lock lock(mutex_);
    CUpti_Activity* record = nullptr;
    while (cupti().cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
      const auto& kernel = *reinterpret_cast<const KernelRecord*>(record);
      kernels_.emplace_back(kernel.start, describe(kernel));
    }
  }

  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, ExecutedKernel>> kernels_;  // with when they began
};

class GpuKernelTrace final : public KernelTrace {
 public:
  explicit GpuKernelTrace(const Device& device) : device_(device) {}

  std::string why_not() override {
    if (!tried_) {
      tried_ = true;
      try {
        check(cupti().cuptiActivityRegisterCallbacks(Records::request, Records::complete),
              "preparing to trace kernels");
        const Recording recording;
      } catch (const std::exception& error) {
        why_not_ = error.what();
      }
    }
    return why_not_;
  }

  std::vector<ExecutedKernel> trace(const std::function<void()>& work) override {
    if (const std::string reason = why_not(); !reason.empty()) throw std::runtime_error(reason);
    Runtime& runtime = cuda::runtime_of(device_);
    runtime.synchronize();
    static_cast<void>(Records::instance().take());
    {
      const Recording recording;
      work();
      runtime.synchronize();
      check(cupti().cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "collecting kernels");
    }
    auto records = Records::instance().take();
    std::ranges::stable_sort(records, {}, &std::pair<std::uint64_t, ExecutedKernel>::first);
    std::vector<ExecutedKernel> kernels;
    for (auto& record : records) {
      ExecutedKernel& kernel = record.second;
      const auto same = std::ranges::find_if(
          kernels, [&](const ExecutedKernel& other) { return is_same_launch(other, kernel); });
      if (same != kernels.end()) {
        ++same->launches;
        *same->seconds += *kernel.seconds;
      } else {
        kernels.push_back(std::move(kernel));
      }
    }
    return kernels;
  }

 private:
  // Records are made as long as it lives: timed launches are never among them.
  class Recording {
   public:
    Recording() {
      check(cupti().cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
            "switching the trace of kernels on");
    }
    ~Recording() { cupti().cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;
  };

  Device device_;
  bool tried_ = false;
  std::string why_not_;
};

}  // namespace

KernelTrace& kernel_trace_of(const Device& device) {
  static std::map<int, std::unique_ptr<GpuKernelTrace>> traces;
  make_current(device);
  std::unique_ptr<GpuKernelTrace>& found = traces[device.ordinal];
  if (!found) found = std::make_unique<GpuKernelTrace>(device);
  return *found;
}

}  // namespace attnlab::cuda
