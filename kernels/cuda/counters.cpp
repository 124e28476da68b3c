#include "kernels/cuda/counters.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/api/runtime.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/instruments.h"
#include "kernels/cuda/range_profiler.h"
#include "kernels/cuda/runtime.h"

namespace attnlab::cuda {
namespace {

constexpr std::uint64_t kSweepTimesL2 = 3;  // a cache that is not quite LRU keeps some of twice
constexpr std::uint64_t kCheckBytes = std::uint64_t{256} << 20;
constexpr double kCheckTolerance = 0.02;
constexpr double kSectorBytes = 32.0;

// Where a metric goes, and its unit in that of the field.
struct Metric {
  std::optional<double> HardwareCounts::*field;
  std::string name;
  double factor = 1.0;
};

// The operations of a type, with sums in fp32, by wgmma ("hgmma") or mma.sync ("hmma"). wgmma's of
// fp16 are counted with all sums alike.
std::string tensor_operations(const std::string& instruction, Dtype dtype) {
  const std::string name = "sm__ops_path_tensor_op_" + instruction + "_src_";
  switch (dtype) {
    case Dtype::f32: return name + "tf32_dst_fp32.sum";
    case Dtype::f16: return name + (instruction == "hgmma" ? "fp16.sum" : "fp16_dst_fp32.sum");
    case Dtype::bf16: return name + "bf16_dst_fp32.sum";
  }
  return name;
}

// One pass of a GH100, of bf16 and f32 two, and three with the further ones (counters_test.cpp).
// lts__t_bytes is not among them: it counts what crosses between the halves of the L2 as well, and
// is three times what the multiprocessors ask for. Between the multiprocessors and the L2 lies a
// coalescer (lrc__ among CUPTI's names), which merges reads of the same lines by blocks in step:
// what arrives at the L1s is what a schedule asks for, and what leaves the L2 may be less.
std::vector<Metric> metrics_of(Dtype dtype, bool further) {
  using C = HardwareCounts;
  std::vector<Metric> metrics = {
      {&C::dram_read_bytes, "dram__bytes_read.sum"},
      {&C::dram_read_bytes, "dram__bytes_op_read.sum"},  // on some Blackwell chips
      {&C::dram_write_bytes, "dram__bytes_write.sum"},
      {&C::dram_write_bytes, "dram__bytes_op_write.sum"},
      {&C::sm_read_bytes, "l1tex__m_xbar2l1tex_read_sectors.sum", kSectorBytes},
      {&C::l2_read_bytes, "lts__t_sectors_srcunit_tex_op_read.sum", kSectorBytes},
      {&C::l2_write_bytes, "lts__t_sectors_srcunit_tex_op_write.sum", kSectorBytes},
      {&C::tensor_active_cycles, "sm__pipe_tensor_cycles_active.avg"},
      {&C::active_cycles, "sm__cycles_active.avg"},
      {&C::wgmma_flops, tensor_operations("hgmma", dtype)},
      {&C::multiprocessor_clock_hz, "gpc__cycles_elapsed.avg.per_second"},
  };
  if (further) {
    metrics.push_back({&C::mma_sync_flops, tensor_operations("hmma", dtype)});
    metrics.push_back({&C::atomic_bytes, "lts__t_sectors_srcunit_tex_op_atom.sum", kSectorBytes});
    metrics.push_back({&C::reduction_bytes, "lts__t_sectors_srcunit_tex_op_red.sum", kSectorBytes});
    // By CUPTI's descriptions wavefronts are those of loads, stores, atomics, cp.async and, on a
    // GH100, wgmma; conflicts "op_ld" of ld and ldmatrix, "op_st" of st and stmatrix. Those of
    // cp.async are in neither: what would count them needs a pass more.
    const std::string conflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_";
    metrics.push_back({&C::shared_wavefronts, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"});
    metrics.push_back({&C::shared_load_conflicts, conflicts + "ld.sum"});
    metrics.push_back({&C::shared_store_conflicts, conflicts + "st.sum"});
  }
  return metrics;
}

MetricNames names_of(const std::vector<Metric>& metrics) {
  MetricNames names;
  for (const Metric& metric : metrics) names.push_back(metric.name);
  return names;
}

// Everything of `total` that is a sum over the range, less what the sweep in it counted. A sweep
// writes nothing: what is written while it runs are dirty lines that were there before, some MB of
// which survive any sweep, and are found before the range as well as left behind it.
void subtract(HardwareCounts& total, const HardwareCounts& sweep,
              const std::vector<Metric>& metrics) {
  for (const Metric& metric : metrics) {
    std::optional<double>& value = total.*metric.field;
    const std::optional<double>& of_sweep = sweep.*metric.field;
    const bool stays = metric.field == &HardwareCounts::dram_write_bytes ||
                       metric.field == &HardwareCounts::l2_write_bytes ||
                       metric.field == &HardwareCounts::multiprocessor_clock_hz;
    if (value && of_sweep && !stays) *value = std::max(0.0, *value - *of_sweep);
  }
}

class GpuCounters final : public Counters {
 public:
  explicit GpuCounters(const Device& device) : device_(device) {}

  std::string why_not() override {
    if (!tried_) {
      tried_ = true;
      try {
        start();
      } catch (const std::exception& error) {
        why_not_ = error.what();
      }
    }
    return why_not_;
  }

  HardwareCounts count(const CounterRequest& request, const Launch& launch) override {
    require();
    const auto launch_all = [&] {
      for (int i = 0; i < request.launches; ++i) launch(i);
      runtime_->synchronize();
    };
    return measure(present(metrics_of(request.dtype, request.further)), request.l2, launch_all);
  }

  const CounterCheck& check() override {
    require();
    if (!check_) check_ = check_now();
    return *check_;
  }

 private:
  void start() {
    runtime_ = &cuda::runtime_of(device_);
    CUdevice handle = 0;
    cuda::check(driver().cuDeviceGet(&handle, device_.ordinal), "opening the GPU");
    profiler_.emplace(handle);
    instruments_.emplace(device_);
  }

  void require() {
    if (const std::string reason = why_not(); !reason.empty()) throw std::runtime_error(reason);
  }

  CUstream stream() const { return static_cast<CUstream>(runtime_->queue()); }

  // Those of them that the chip has; of two for one field the first.
  std::vector<Metric> present(const std::vector<Metric>& wanted) const {
    std::vector<Metric> found;
    for (const Metric& metric : wanted) {
      const bool has_one = std::ranges::any_of(
          found, [&](const Metric& other) { return other.field == metric.field; });
      if (!has_one && profiler_->has(metric.name)) found.push_back(metric);
    }
    return found;
  }

  HardwareCounts measure(const std::vector<Metric>& metrics, L2State l2,
                         const std::function<void()>& work) {
    if (l2 == L2State::steady) return read_range(metrics, work, work);
    // Made here: making one writes it, which would be counted.
    const DeviceBuffer& first = sweep_buffer(first_sweep_);
    const DeviceBuffer& second = sweep_buffer(second_sweep_);
    const auto sweep_before = [&] { read_all(first); };
    const auto sweep_at_end = [&] { read_all(second); };
    auto sweep = sweeps_.find(names_of(metrics));
    if (sweep == sweeps_.end()) {
      sweep =
          sweeps_.emplace(names_of(metrics), read_range(metrics, sweep_before, sweep_at_end)).first;
    }
    HardwareCounts counts = read_range(metrics, sweep_before, [&] {
      work();
      sweep_at_end();
    });
    subtract(counts, sweep->second, metrics);
    return counts;
  }

  HardwareCounts read_range(const std::vector<Metric>& metrics, const std::function<void()>& before,
                            const std::function<void()>& work) {
    HardwareCounts counts;
    counts.metrics = names_of(metrics);
    const std::vector<double> values = profiler_->measure(counts.metrics, before, work);
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      if (!std::isfinite(values[i])) {
        throw std::runtime_error("CUPTI: " + metrics[i].name + " was not counted");
      }
      counts.*metrics[i].field = metrics[i].factor * values[i];
    }
    return counts;
  }

  std::uint64_t sweep_bytes() const { return kSweepTimesL2 * device_.l2_bytes; }
  const DeviceBuffer& sweep_buffer(std::optional<DeviceBuffer>& place) {
    if (!place) {
      place.emplace(*runtime_, sweep_bytes());
      instruments_->noise(stream(), place->get(), sweep_bytes());
    }
    return *place;
  }

  void read_all(const DeviceBuffer& buffer) {
    instruments_->fingerprint(stream(), buffer.get(), sweep_bytes());
    runtime_->synchronize();
  }

  // A copy and a read far larger than the L2, swept.
  CounterCheck check_now() {
    CounterCheck result;
    {
      const DeviceBuffer from(*runtime_, kCheckBytes);
      const DeviceBuffer to(*runtime_, kCheckBytes);
      instruments_->noise(stream(), from.get(), kCheckBytes);
      const CounterRequest request = {.l2 = L2State::swept};
      const HardwareCounts copied = count(
          request, [&](int) { instruments_->copy(stream(), from.get(), to.get(), kCheckBytes); });
      add_line(result, "dram read of a copy", kCheckBytes, copied.dram_read_bytes);
      add_line(result, "dram write of a copy", kCheckBytes, copied.dram_write_bytes);
      add_line(result, "multiprocessors' read of a copy", kCheckBytes, copied.sm_read_bytes);
      add_line(result, "L2 read of a copy", kCheckBytes, copied.l2_read_bytes);
      add_line(result, "L2 write of a copy", kCheckBytes, copied.l2_write_bytes);
      const HardwareCounts read = count(
          request, [&](int) { instruments_->fingerprint(stream(), from.get(), kCheckBytes); });
      add_line(result, "dram read of a read", kCheckBytes, read.dram_read_bytes);
      add_line(result, "multiprocessors' read of a read", kCheckBytes, read.sm_read_bytes);
      add_line(result, "L2 read of a read", kCheckBytes, read.l2_read_bytes);
    }
    if (result.lines.empty()) result.wrong = "this chip has none of the metrics of bytes";
    for (const CounterCheck::Line& line : result.lines) {
      const double error = std::abs(line.counted_bytes - line.expected_bytes);
      if (error <= kCheckTolerance * line.expected_bytes) continue;
      result.wrong += (result.wrong.empty() ? "" : "; ") + line.what + ": " +
                      std::to_string(static_cast<std::int64_t>(line.counted_bytes)) +
                      " bytes counted, " +
                      std::to_string(static_cast<std::int64_t>(line.expected_bytes)) + " expected";
    }
    return result;
  }

  // What the chip cannot count is not checked.
  static void add_line(CounterCheck& check, const char* what, double expected,
                       const std::optional<double>& counted) {
    if (counted) check.lines.push_back({what, expected, *counted});
  }

  Device device_;
  bool tried_ = false;
  std::string why_not_;
  Runtime* runtime_ = nullptr;
  std::optional<RangeProfiler> profiler_;
  std::optional<Instruments> instruments_;
  std::optional<DeviceBuffer> first_sweep_, second_sweep_;
  std::map<MetricNames, HardwareCounts> sweeps_;  // what one counts
  std::optional<CounterCheck> check_;
};

}  // namespace

Counters& counters_of(const Device& device) {
  // Never destroyed: at the end of the process CUPTI may be gone before it.
  static auto& counters = *new std::map<int, std::unique_ptr<GpuCounters>>;
  make_current(device);
  std::unique_ptr<GpuCounters>& found = counters[device.ordinal];
  if (!found) found = std::make_unique<GpuCounters>(device);
  return *found;
}

std::vector<std::string> counted_metrics(Dtype dtype, bool further) {
  return names_of(metrics_of(dtype, further));
}

}  // namespace attnlab::cuda
