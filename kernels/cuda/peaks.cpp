#include "kernels/cuda/peaks.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <stdexcept>
#include <thread>

#include "kernels/api/runtime.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/instruments.h"
#include "kernels/cuda/peak_kernels.h"
#include "kernels/cuda/runtime.h"

namespace attnlab::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSampleSeconds = 20e-3;
constexpr double kRestSeconds = 1.0;
constexpr double kLoadSeconds = 1.5;
constexpr int kSamples = 9;
constexpr int kMostLaunches = 50;         // of a sample
constexpr double kClockSeconds = 400e-6;  // the GPU's own timer steps by about 1 us

// This many steps of the kernels that are not bound to a buffer's size take about 2 ms at 1.7 GHz.
constexpr u32 kL2Steps = 192, kSharedSteps = 512, kFmaSteps = 4096, kEx2Steps = 1024;

std::string mib(u64 bytes) { return std::to_string(bytes >> 20) + " MiB"; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

DeviceBuffer allocate(Runtime& runtime, u64 bytes) try {
  return {runtime, bytes};
} catch (const std::bad_alloc&) {
  throw std::runtime_error("no " + mib(bytes) +
                           " of memory are free on the GPU: end what else uses it");
}

class Measurement {
 public:
  explicit Measurement(const Device& device)
      : device_(device),
        runtime_(cuda::runtime_of(device)),
        stream_(as_stream(runtime_.queue())),
        clock_(device),
        kernels_(device),
        results_(allocate(runtime_, kernels_.results_bytes())) {}

  Ceiling measure(CeilingId id) {
    Ceiling ceiling{.id = id};
    try {
      switch (id) {
        case CeilingId::tensor_f16: product(Dtype::f16, ceiling); break;
        case CeilingId::tensor_bf16: product(Dtype::bf16, ceiling); break;
        case CeilingId::tensor_tf32: product(Dtype::f32, ceiling); break;
        case CeilingId::fma_f32: fma(ceiling); break;
        case CeilingId::hbm_copy: copy(ceiling); break;
        case CeilingId::hbm_read: read(ceiling); break;
        case CeilingId::l2_read: read_l2(ceiling); break;
        case CeilingId::shared_read: read_shared(ceiling); break;
        case CeilingId::ex2: ex2(ceiling); break;
      }
    } catch (const DeviceLost&) {
      throw;
    } catch (const std::exception& error) {
      ceiling.reason = error.what();
    }
    return ceiling;
  }

 private:
  using Launch = std::function<void()>;

  void product(Dtype dtype, Ceiling& ceiling) {
    if (dtype != Dtype::f16 && device_.compute_capability < 80) {
      ceiling.reason = "tensor cores have this type from compute capability 8.0 on";
      return;
    }
    const auto element_bytes = static_cast<u64>(size_bytes(dtype));
    const u64 rows = product_rows(device_, element_bytes);
    const u64 elements = rows * rows;
    const DeviceBuffer factors = allocate(runtime_, 2 * elements * element_bytes);
    const DeviceBuffer result = allocate(runtime_, elements * element_bytes);
    const DeviceBuffer workspace = allocate(runtime_, Blas::workspace_bytes(device_));
    kernels_.fill_normal(stream_, dtype, factors.get(), 2 * elements);
    const void* const right = behind(factors.get(), elements * element_bytes);
    Blas& blas = Blas::of(device_);
    blas.use(stream_, workspace.get(), Blas::workspace_bytes(device_));
    const auto size = static_cast<i64>(rows);
    const GemmMatrix matrix{.row_stride = size};
    const Gemm gemm{.rows = size,
                    .columns = size,
                    .inner = size,
                    .left = matrix,
                    .right = matrix,
                    .result = matrix};
    const GemmTypes types{
        .factors = dtype,
        .result = dtype,
        .precision = dtype == Dtype::f32 ? GemmPrecision::tf32 : GemmPrecision::full};
    const std::string shape = "(" + std::to_string(rows) + ", " + std::to_string(rows) + ")";
    ceiling.how = "cuBLAS multiplies " + shape + " by " + shape +
                  ", values drawn from N(0,1), sums in fp32, 2 FLOP a multiply-add";
    time(2.0 * std::pow(static_cast<double>(rows), 3.0), ceiling,
         [&] { blas.run(gemm, types, factors.get(), right, result.get()); });
  }

  void fma(Ceiling& ceiling) {
    ceiling.how = "chains of fp32 multiply-adds in registers, " +
                  std::to_string(PeakKernels::fmas_of_step()) + " to a thread, 2 FLOP each";
    // The values change sign each step and shrink slowly, so that many bits of them change.
    time(2.0 * per_launch(PeakKernels::fmas_of_step(), kFmaSteps), ceiling,
         [&] { kernels_.fma(stream_, kFmaSteps, -0.99999f, 0.1234567f, results_.get()); });
  }

  void ex2(Ceiling& ceiling) {
    ceiling.how = "chains of ex2.approx.ftz.f32 in registers, " +
                  std::to_string(PeakKernels::ex2s_of_step()) + " to a thread";
    time(per_launch(PeakKernels::ex2s_of_step(), kEx2Steps), ceiling,
         [&] { kernels_.ex2(stream_, kEx2Steps, results_.get()); });
  }

  void read_shared(Ceiling& ceiling) {
    ceiling.how = "threads read 16 bytes at a time, side by side, from 32 KiB a block";
    time(per_launch(PeakKernels::shared_bytes_of_step(), kSharedSteps), ceiling,
         [&] { kernels_.read_shared(stream_, kSharedSteps, results_.get()); });
  }

  void read_l2(Ceiling& ceiling) {
    const u64 chunks = cached_chunks(device_);
    const u64 bytes = chunks * kPeakChunkBytes;
    const DeviceBuffer buffer = allocate(runtime_, bytes);
    kernels_.fill_normal(stream_, Dtype::f32, buffer.get(), bytes / sizeof(float));
    ceiling.how = "a kernel goes round in " + mib(bytes) +
                  ", 16 bytes at a time past the L1, every block at a place of its own";
    time(static_cast<double>(kernels_.blocks() * kL2Steps * kPeakChunkBytes), ceiling,
         [&] { kernels_.read(stream_, buffer.get(), chunks, 1, kL2Steps, results_.get()); });
  }

  void read(Ceiling& ceiling) {
    const u64 chunks = streamed_chunks(device_, kernels_.blocks());
    const u64 bytes = chunks * kPeakChunkBytes;
    const DeviceBuffer buffer = allocate(runtime_, bytes);
    kernels_.fill_normal(stream_, Dtype::f32, buffer.get(), bytes / sizeof(float));
    ceiling.how = "a kernel reads " + mib(bytes) + " once, 16 bytes at a time";
    const auto steps = static_cast<u32>(chunks / kernels_.blocks());
    time(static_cast<double>(bytes), ceiling, [&] {
      kernels_.read(stream_, buffer.get(), chunks, kernels_.blocks(), steps, results_.get());
    });
  }

  // Copies by a kernel and by the driver; the faster one counts.
  void copy(Ceiling& ceiling) {
    const u64 all = streamed_chunks(device_, 2 * kernels_.blocks());
    const u64 bytes = all / 2 * kPeakChunkBytes;
    const DeviceBuffer from = allocate(runtime_, bytes);
    const DeviceBuffer to = allocate(runtime_, bytes);
    kernels_.fill_normal(stream_, Dtype::f32, from.get(), bytes / sizeof(float));
    const auto steps = static_cast<u32>(all / 2 / kernels_.blocks());
    const std::string what = mib(bytes) +
                             " are copied to another place, bytes read and bytes "
                             "written both counted, by ";
    Ceiling driven = ceiling;
    ceiling.how = what + "a kernel, 16 bytes at a time (the driver's copy is slower)";
    time(2.0 * static_cast<double>(bytes), ceiling,
         [&] { kernels_.copy(stream_, from.get(), to.get(), steps); });
    driven.how = what + "the driver's copy (a kernel is slower)";
    time(2.0 * static_cast<double>(bytes), driven, [&] {
      check(driver().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to.get()),
                                       reinterpret_cast<CUdeviceptr>(from.get()), bytes, stream_),
            "copying on the GPU");
    });
    if (driven.settled.per_s > ceiling.settled.per_s) ceiling = driven;
  }

  double per_launch(u64 of_step, u32 steps) const {
    return static_cast<double>(kernels_.threads() * of_step * steps);
  }

  // Times launches; `work` is what one launch does.
  void time(double work, Ceiling& ceiling, const Launch& launch) {
    const auto rate_of = [&](int launches) {
      const double seconds = runtime_.seconds_of(launches, [&](int) { launch(); }, {});
      return launches * work / seconds;
    };
    launch();  // the first may load code and choose an algorithm
    runtime_.synchronize();
    const int launches = static_cast<int>(
        std::clamp(std::ceil(kSampleSeconds * rate_of(1) / work), 1.0, double{kMostLaunches}));
    rate_of(launches);  // the timer learns how long it takes to queue so many
    std::this_thread::sleep_for(std::chrono::duration<double>(kRestSeconds));
    ceiling.burst.per_s = rate_of(launches);
    ceiling.burst.clock_hz = read_clock();
    const Clock::time_point start = Clock::now();
    while (std::chrono::duration<double>(Clock::now() - start).count() < kLoadSeconds) {
      rate_of(launches);
    }
    std::vector<double> rates, clocks;
    for (int sample = 0; sample < kSamples; ++sample) {
      rates.push_back(rate_of(launches));
      clocks.push_back(read_clock());
    }
    ceiling.settled = {.per_s = median(std::move(rates)), .clock_hz = median(std::move(clocks))};
  }

  // Reads the clock that the load before left: it takes milliseconds to change.
  double read_clock() {
    clock_.spin(stream_, kClockSeconds);
    runtime_.synchronize();
    return static_cast<double>(clock_.spin_cycles()) / clock_.spin_seconds();
  }

  const Device& device_;
  Runtime& runtime_;
  CUstream stream_;
  Instruments clock_;
  PeakKernels kernels_;
  DeviceBuffer results_;
};

}  // namespace

std::uint64_t product_rows(const Device& device, std::uint64_t element_bytes) {
  std::uint64_t rows = 8192;
  while (3 * rows * rows * element_bytes > device.memory_bytes / 8) rows /= 2;
  return rows;
}

std::uint64_t streamed_chunks(const Device& device, std::uint64_t blocks) {
  const std::uint64_t bytes = std::min(128 * device.l2_bytes, device.memory_bytes / 4);
  return std::max<std::uint64_t>(1, bytes / kPeakChunkBytes / blocks) * blocks;
}

std::uint64_t cached_chunks(const Device& device) {
  return std::max<std::uint64_t>(1, device.l2_bytes / 4 / kPeakChunkBytes);
}

std::vector<Ceiling> measure_peaks(const Device& device,
                                   const std::function<void(CeilingId)>& begins) {
  Measurement measurement(device);
  std::vector<Ceiling> ceilings;
  for (const CeilingId id : ceiling_ids()) {
    begins(id);
    ceilings.push_back(measurement.measure(id));
  }
  return ceilings;
}

}  // namespace attnlab::cuda
