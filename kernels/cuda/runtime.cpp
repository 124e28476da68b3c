#include "kernels/cuda/runtime.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/instruments.h"

namespace attnlab::cuda {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

CUdeviceptr pointer(const void* data) { return reinterpret_cast<CUdeviceptr>(data); }

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return stream.str();
}

std::string hexadecimal(std::span<const char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string digits;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    digits += {kDigits[value / 16], kDigits[value % 16]};
  }
  return digits;
}

// GraphNode names what a node of a graph does: a kernel by its function and its grid, other work by
// its type.
using GraphNode = std::tuple<CUgraphNodeType, CUfunction, unsigned, unsigned, unsigned>;

// Graph is work recorded once, launched with one call.
class Graph {
 public:
  Graph(CUstream stream, const std::function<void()>& work) {
    const Driver& api = driver();
    check(api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
          "recording a graph");
    work();
    check(api.cuStreamEndCapture(stream, &graph_), "recording a graph");
    const CUresult made = api.cuGraphInstantiateWithFlags(&executable_, graph_, 0);
    if (made != CUDA_SUCCESS) api.cuGraphDestroy(graph_);
    check(made, "making a graph");
  }
  ~Graph() {
    driver().cuGraphExecDestroy(executable_);
    driver().cuGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Counts nodes that do the same.
  std::map<GraphNode, std::size_t> work() const {
    const Driver& api = driver();
    std::size_t count = 0;
    check(api.cuGraphGetNodes(graph_, nullptr, &count), "counting a graph's nodes");
    std::vector<CUgraphNode> nodes(count);
    check(api.cuGraphGetNodes(graph_, nodes.data(), &count), "reading a graph's nodes");
    std::map<GraphNode, std::size_t> work;
    for (CUgraphNode node : nodes) {
      CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
      check(api.cuGraphNodeGetType(node, &type), "reading a graph's node");
      CUDA_KERNEL_NODE_PARAMS kernel = {};
      if (type == CU_GRAPH_NODE_TYPE_KERNEL) {
        check(api.cuGraphKernelNodeGetParams(node, &kernel), "reading a graph's kernel");
      }
      ++work[{type, kernel.func, kernel.gridDimX, kernel.gridDimY, kernel.gridDimZ}];
    }
    return work;
  }

  void launch(CUstream stream) const {
    check(driver().cuGraphLaunch(executable_, stream), "launching a graph");
  }

 private:
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

// Throws std::runtime_error unless `graph` does what `one` does, `launches` times.
void check_is_repeated(const Graph& graph, const Graph& one, int launches) {
  std::map<GraphNode, std::size_t> expected = one.work();
  for (auto& [node, count] : expected) count *= static_cast<std::size_t>(launches);
  if (graph.work() == expected) return;
  throw std::runtime_error(text("a graph of ", launches, " launches does other work than ",
                                launches, " graphs of one launch: its time is void"));
}

class GpuRuntime final : public Runtime {
 public:
  explicit GpuRuntime(const Device& device)
      : instruments_(device), max_clock_hz_(device.max_clock_hz) {
    check(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "making a stream");
    for (CUevent* event : {&begin_, &end_}) {
      check(driver().cuEventCreate(event, CU_EVENT_DEFAULT), "making an event");
    }
  }

  bool is_host() const override { return false; }

  void* allocate(std::uint64_t bytes) override {
    CUdeviceptr data = 0;
    const CUresult result = driver().cuMemAlloc(&data, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) throw std::bad_alloc();
    check(result, "allocating memory on the GPU");
    return reinterpret_cast<void*>(data);
  }

  void release(void* data) noexcept override {
    if (lost_) return;  // the driver would wait for what never ends; the process ends soon
    driver().cuMemFree(pointer(data));
  }

  std::optional<SharedMemory> share(const void* data) override {
    CUdeviceptr first = 0;
    std::size_t bytes = 0;
    CUipcMemHandle handle;
    if (driver().cuMemGetAddressRange(&first, &bytes, pointer(data)) != CUDA_SUCCESS ||
        driver().cuIpcGetMemHandle(&handle, first) != CUDA_SUCCESS) {
      return std::nullopt;
    }
    return SharedMemory{.handle = hexadecimal(handle.reserved), .offset = pointer(data) - first};
  }

  void fill(void* data, std::uint8_t byte, std::uint64_t bytes) override {
    submit(driver().cuMemsetD8Async(pointer(data), byte, bytes, stream_), "filling memory");
    synchronize();
  }

  void write(void* data, const void* from_host, std::uint64_t bytes) override {
    synchronize();
    submit(driver().cuMemcpyHtoDAsync(pointer(data), from_host, bytes, stream_),
           "copying to the GPU");
    synchronize();
  }

  void read(void* to_host, const void* data, std::uint64_t bytes) override {
    synchronize();  // a copy to pageable memory may block, which would blind the watchdog
    submit(driver().cuMemcpyDtoHAsync(to_host, pointer(data), bytes, stream_),
           "copying from the GPU");
    synchronize();
  }

  void copy(void* data, const void* from, std::uint64_t bytes) override {
    submit(driver().cuMemcpyDtoDAsync(pointer(data), pointer(from), bytes, stream_),
           "copying on the GPU");
    synchronize();
  }

  std::uint64_t fingerprint(const void* data, std::uint64_t bytes) override {
    guarded([&] { instruments_.fingerprint(stream_, data, bytes); });
    synchronize();
    return instruments_.last_sum();
  }

  std::uint64_t count_filled(const void* data, std::uint8_t byte, std::uint64_t bytes,
                             int element_bytes) override {
    guarded([&] { instruments_.count_filled(stream_, data, byte, bytes, element_bytes); });
    synchronize();
    return instruments_.last_sum();
  }

  // Polls, so that what hangs is noticed.
  void synchronize() override {
    const Clock::time_point start = Clock::now();
    for (;;) {
      const CUresult state = driver().cuStreamQuery(stream_);
      if (state == CUDA_SUCCESS) return;
      if (state != CUDA_ERROR_NOT_READY) submit(state, "waiting for the GPU");
      const double waited = seconds_since(start);
      if (waited > timeout_) {
        lost_ = true;
        throw DeviceLost(DeviceLost::Cause::hang, text("did not end within ", timeout_, " s"));
      }
      // Short waits are worth a busy processor, long ones are not.
      if (waited > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  void* queue() override { return stream_; }

  double seconds_of(int launches, const Launch& launch,
                    const std::function<void()>& before_again) override {
    const auto queue_all = [&] {
      for (int i = 0; i < launches; ++i) launch(i);
    };
    return behind_a_spin(queue_all, before_again);
  }

  std::string timer() const override { return "cuda events behind a spinning kernel"; }

  int timer_retries() const override { return retries_; }

  // Launches spins of a known number of cycles, which say themselves how long they ran.
  std::string check_timer() override {
    constexpr std::uint64_t kCycles = 3'000'000;
    double last = 0.0;
    for (const std::uint64_t cycles : {kCycles, 2 * kCycles}) {
      double seconds = 0.0, expected = 0.0, allowed = 0.0;
      // A process that the GPU also serves takes a slice of time between two events now and then:
      // what they say is too long then, so that alone is measured again.
      for (int tries = 0; tries < kTries && !(seconds > 0.0 && seconds <= expected + allowed);
           ++tries) {
        seconds = seconds_of(1, [&](int) { instruments_.spin(stream_, 0.0, cycles); }, {});
        expected = instruments_.spin_seconds();
        allowed = 0.005 * expected + 5e-6;
      }
      if (!(std::abs(seconds - expected) <= allowed)) {
        return text("events say that a spin of ", cycles, " cycles took ", 1e6 * seconds,
                    " us, the GPU's own clock says ", 1e6 * expected, " us");
      }
      const auto spun = static_cast<double>(instruments_.spin_cycles());
      if (!(spun >= static_cast<double>(cycles) && spun <= 1.01 * static_cast<double>(cycles))) {
        return text("a spin of ", cycles, " cycles counted ", spun);
      }
      const double clock = spun / expected;
      if (!(clock <= 1.02 * max_clock_hz_)) {
        return text("a spin ran at ", 1e-6 * clock, " MHz, and the GPU's highest clock is ",
                    1e-6 * max_clock_hz_, " MHz");
      }
      if (last > 0.0 && !(seconds > 1.5 * last && seconds < 2.7 * last)) {
        return text("twice as many cycles took ", seconds / last, " times as long");
      }
      last = seconds;
    }
    return "";
  }

  double graph_seconds_of(int launches, const Launch& launch,
                          const std::function<void()>& between) override {
    double seconds = 0.0;
    guarded([&] {
      const Graph graph(stream_, [&] {
        for (int i = 0; i < launches; ++i) launch(i);
      });
      check_is_repeated(graph, Graph(stream_, [&] { launch(0); }), launches);
      graph.launch(stream_);  // the first launch also uploads it
      synchronize();
      if (between) between();
      seconds = behind_a_spin([&] { graph.launch(stream_); }, between);
    });
    return seconds;
  }

  void set_timeout(double seconds) override { timeout_ = seconds; }

 private:
  static constexpr int kTries = 4;
  static constexpr double kShortestLead = 20e-6;

  // Returns the time between two events around what `queue_all` queues. A spinning kernel in front
  // keeps the GPU from starting before everything is queued, so that the cost of launching stays
  // out. How long it spins follows from how long queueing took the last time; if it ended too
  // early, all is done again with a longer one, behind `before_again`.
  double behind_a_spin(const std::function<void()>& queue_all,
                       const std::function<void()>& before_again) {
    float milliseconds = 0.0f;
    guarded([&] {
      for (int tries = 1; tries <= kTries; ++tries) {
        if (tries > 1 && before_again) before_again();
        instruments_.spin(stream_, lead_);
        check(driver().cuEventRecord(begin_, stream_), "recording an event");
        const Clock::time_point start = Clock::now();
        queue_all();
        check(driver().cuEventRecord(end_, stream_), "recording an event");
        const double queueing = seconds_since(start);
        const bool late = instruments_.spin_has_ended();
        lead_ = std::max(kShortestLead, 1.5 * queueing + kShortestLead);
        synchronize();
        check(driver().cuEventElapsedTime(&milliseconds, begin_, end_), "reading a time");
        if (!late) break;
        ++retries_;
      }
    });
    return 1e-3 * static_cast<double>(milliseconds);
  }

  // Notes when the device is lost on the way.
  template <class Work>
  void guarded(const Work& work) {
    try {
      work();
    } catch (const DeviceLost&) {
      lost_ = true;
      throw;
    }
  }

  void submit(CUresult result, const char* what) {
    guarded([&] { check(result, what); });
  }

  Instruments instruments_;
  double max_clock_hz_;
  CUstream stream_ = nullptr;
  CUevent begin_ = nullptr, end_ = nullptr;
  double timeout_ = std::numeric_limits<double>::infinity();
  int retries_ = 0;
  double lead_ = 100e-6;  // seconds that the next spin takes
  bool lost_ = false;
};

}  // namespace

Runtime& runtime_of(const Device& device) {
  static std::map<int, std::unique_ptr<GpuRuntime>> runtimes;
  make_current(device);
  std::unique_ptr<GpuRuntime>& runtime = runtimes[device.ordinal];
  if (!runtime) runtime = std::make_unique<GpuRuntime>(device);
  return *runtime;
}

}  // namespace attnlab::cuda
