#include "kernels/cuda/counters.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "kernels/api/counter_metrics.h"
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

MetricNames names_of(const std::vector<CounterMetric>& metrics) {
  MetricNames names;
  for (const CounterMetric& metric : metrics) names.push_back(metric.name);
  return names;
}

// Subtracts from everything in `total` that is a sum over the range what the sweep in it counted. A
// sweep writes nothing: what is written while it runs are dirty lines that were there before, some
// MB of which survive any sweep, and are found before the range as well as left behind it.
void subtract(HardwareCounts& total, const HardwareCounts& sweep,
              const std::vector<CounterMetric>& metrics) {
  for (const CounterMetric& metric : metrics) {
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
    return measure(present(counter_metrics(request.dtype, request.further)), request.l2,
                   launch_all);
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

  // Returns the wanted metrics that the chip has; of two for one field the first.
  std::vector<CounterMetric> present(const std::vector<CounterMetric>& wanted) const {
    std::vector<CounterMetric> found;
    for (const CounterMetric& metric : wanted) {
      const bool has_one = std::ranges::any_of(
          found, [&](const CounterMetric& other) { return other.field == metric.field; });
      if (!has_one && profiler_->has(metric.name)) found.push_back(metric);
    }
    return found;
  }

  HardwareCounts measure(const std::vector<CounterMetric>& metrics, L2State l2,
                         const std::function<void()>& work) {
    if (l2 == L2State::steady) return read_range(metrics, work, work);
    // The buffer is made here: making one writes it, which would be counted.
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

  HardwareCounts read_range(const std::vector<CounterMetric>& metrics,
                            const std::function<void()>& before,
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

  // Counts a copy and a read far larger than the L2, swept.
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

  // Adds a line, unless the chip cannot count it: then it is not checked.
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
  // It is never destroyed: at the end of the process CUPTI may be gone before it.
  static auto& counters = *new std::map<int, std::unique_ptr<GpuCounters>>;
  make_current(device);
  std::unique_ptr<GpuCounters>& found = counters[device.ordinal];
  if (!found) found = std::make_unique<GpuCounters>(device);
  return *found;
}

std::vector<std::string> counted_metrics(Dtype dtype, bool further) {
  return names_of(counter_metrics(dtype, further));
}

}  // namespace attnlab::cuda
