// Offers what each backend's devices have: memory and queue, clocks, counters, peaks. The functions
// that kernels/api declares and the harness calls are handed to the CPU's or CUDA's side; this is
// the only file that knows whether the build has CUDA.
#include <stdexcept>

#include "kernels/api/calculator.h"
#include "kernels/api/counters.h"
#include "kernels/api/device_quantiser.h"
#include "kernels/api/diagnosis.h"
#include "kernels/api/peaks.h"
#include "kernels/api/ranges.h"
#include "kernels/api/registry.h"
#include "kernels/api/runtime.h"
#include "kernels/api/telemetry.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/no_counters.h"
#include "kernels/cpu/telemetry.h"
#include "kernels/cpu/tile_ops.h"
#if ATTNLAB_WITH_CUDA
#include "kernels/cuda/calculator.h"
#include "kernels/cuda/counters.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/diagnose.h"
#include "kernels/cuda/kernel_trace.h"
#include "kernels/cuda/nvtx.h"
#include "kernels/cuda/peaks.h"
#include "kernels/cuda/quantiser.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/telemetry.h"
#endif

namespace attnlab {

std::vector<Device> available_devices(Backend backend) {
  if (backend == Backend::cpu) return {cpu::cpu_device()};
#if ATTNLAB_WITH_CUDA
  return cuda::devices();
#else
  return {};
#endif
}

std::vector<Device> available_devices() {
  std::vector<Device> devices = available_devices(Backend::cuda);
  devices.push_back(cpu::cpu_device());
  return devices;
}

std::string why_no_device(Backend backend) {
  if (backend == Backend::cpu) return "";
#if ATTNLAB_WITH_CUDA
  return cuda::why_no_devices();
#else
  return "this build has no CUDA: run scripts/setup.sh --cuda and build again";
#endif
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const cpu::TileOps* ops : cpu::supported_tile_ops()) names.emplace_back(ops->isa);
  return names;
}

Runtime& runtime_of([[maybe_unused]] const Device& device) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::runtime_of(device);
#endif
  return host_runtime();
}

Counters& counters_of([[maybe_unused]] const Device& device) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::counters_of(device);
#endif
  return cpu::counters();
}

KernelTrace& kernel_trace_of([[maybe_unused]] const Device& device) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::kernel_trace_of(device);
#endif
  return cpu::kernel_trace();
}

Telemetry& telemetry_of([[maybe_unused]] const Device& device) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::telemetry_of(device);
#endif
  return cpu::telemetry();
}

std::unique_ptr<Calculator> make_calculator(const Device& device,
                                            [[maybe_unused]] KernelUnit unit) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::make_calculator(device, unit);
#endif
  throw std::runtime_error("a " + std::string(to_string(device.backend)) +
                           " device does not compute references: the oracle does, on processors");
}

std::string why_no_quantiser([[maybe_unused]] const Problem& problem, const Device& device) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::why_no_quantiser(problem, device);
#endif
  return "a " + std::string(to_string(device.backend)) + " device has no kernel that quantises";
}

std::vector<KernelUnit> quantiser_units(const Problem& problem, const Device& device) {
  if (!why_no_quantiser(problem, device).empty()) return {};
#if ATTNLAB_WITH_CUDA
  return cuda::quantiser_units(problem);
#else
  return {};
#endif
}

std::unique_ptr<DeviceQuantiser> make_device_quantiser(const Problem& problem,
                                                       const Device& device) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::make_quantiser(problem, device);
#endif
  throw std::runtime_error(why_no_quantiser(problem, device));
}

std::vector<Ceiling> measure_peaks(const Device& device,
                                   [[maybe_unused]] const std::function<void(CeilingId)>& begins) {
#if ATTNLAB_WITH_CUDA
  if (device.backend == Backend::cuda) return cuda::measure_peaks(device, begins);
#endif
  throw std::runtime_error("the ceilings of a " + std::string(to_string(device.backend)) +
                           " device are not measured: take a GPU");
}

std::vector<Diagnosis> diagnose_cuda() {
#if ATTNLAB_WITH_CUDA
  return cuda::diagnose();
#else
  return {{.what = "CUDA",
           .health = Health::missing,
           .finding = "this build has none",
           .remedy = "run scripts/setup.sh --cuda and build again",
           .essential = true}};
#endif
}

#if ATTNLAB_WITH_CUDA
ProfilerRange::ProfilerRange(const std::string& name) { cuda::push_range(name.c_str()); }
ProfilerRange::~ProfilerRange() { cuda::pop_range(); }

ProfilerCapture::ProfilerCapture(const Device& device) : backend_(device.backend) {
  if (backend_ == Backend::cuda) cuda::start_profilers();
}
ProfilerCapture::~ProfilerCapture() {
  if (backend_ == Backend::cuda) cuda::stop_profilers();
}
#else
ProfilerRange::ProfilerRange(const std::string&) {}
ProfilerRange::~ProfilerRange() = default;

ProfilerCapture::ProfilerCapture(const Device& device) : backend_(device.backend) {}
ProfilerCapture::~ProfilerCapture() = default;
#endif

}  // namespace attnlab
