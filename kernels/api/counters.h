// Reads what a device's hardware counts while it works: bytes, operations, and which kernels ran.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/problem.h"

namespace attnlab {

// HardwareCounts counts all launches of a range together. A field is empty if this chip or this
// library has no such counter, or nobody asked for it.
struct HardwareCounts {
  std::optional<double> dram_read_bytes, dram_write_bytes;
  // The multiprocessors read this from the L2, counted where it reaches them; reads of the same
  // lines by several of them at once are merged on the way.
  std::optional<double> sm_read_bytes;
  std::optional<double> l2_read_bytes, l2_write_bytes;  // of the multiprocessors, at the L2
  // Counts cycles of a multiprocessor, their mean: with a tensor pipe at work (of mma.sync, as it
  // seems, the sum over its four pipes); with any warp on it.
  std::optional<double> tensor_active_cycles, active_cycles;
  // Counts cycles from the beginning to the end, by the multiprocessor that counted most: what
  // active ones lack of them, a multiprocessor had no warp.
  std::optional<double> elapsed_cycles;
  std::optional<double> wgmma_flops;  // in the storage type (f32: TF32)
  // These are counted where CounterRequest::further is set.
  std::optional<double> mma_sync_flops;                 // in the storage type (f32: TF32)
  std::optional<double> atomic_bytes, reduction_bytes;  // at the L2, sectors of 32 bytes
  // Counts shared memory: all wavefronts, and the bank conflicts of loads (ldmatrix among them) and
  // of stores.
  std::optional<double> shared_wavefronts, shared_load_conflicts, shared_store_conflicts;

  std::optional<double> multiprocessor_clock_hz;  // while it was counted
  std::vector<std::string> metrics;               // that were counted, by the library's names
};

// L2State is what the L2 holds when a range begins and ends. Its dirty lines reach DRAM when others
// push them out, so a range pays for what was written before it, not for what it leaves.
enum class L2State : std::uint8_t {
  // The L2 is as the launches left it: those before the range wrote what those of the range write,
  // so that as many lines are dirty before as after.
  steady,
  // The L2 is swept by reading a large buffer before the range and another one at its end, so that
  // the first launch finds nothing of its own there and the last leaves nothing behind. What the
  // sweep itself counts is measured alone and subtracted.
  swept,
};

struct CounterRequest {
  Dtype dtype = Dtype::f16;  // whose matrix operations are counted
  int launches = 1;
  L2State l2 = L2State::steady;
  // Asks for FLOPs by mma.sync, atomics and reductions, shared memory, which takes three passes.
  bool further = false;
};

// CounterCheck says how the counters did on work of known size.
struct CounterCheck {
  struct Line {
    std::string what;  // "dram read of a copy"
    double expected_bytes = 0.0;
    double counted_bytes = 0.0;
  };
  std::vector<Line> lines;
  std::string wrong;  // empty: all lines are within 2 %
};

class Counters {
 public:
  Counters() = default;
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;
  virtual ~Counters() = default;

  // Returns why nothing can be counted, with the remedy, "" if it can. Tries it on the first call.
  virtual std::string why_not() = 0;

  // Counts what launch(0) to launch(request.launches - 1) queue; waits for them. All are launched
  // again for each pass, and before it where the L2 is steady. Throws std::runtime_error,
  // DeviceLost.
  using Launch = std::function<void(int index)>;
  virtual HardwareCounts count(const CounterRequest& request, const Launch& launch) = 0;

  // Copies and reads a known size on the first call; returns what it found then.
  virtual const CounterCheck& check() = 0;
};

// ExecutedKernel is a kernel as it was launched.
struct ExecutedKernel {
  std::string symbol;  // demangled
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  int registers = 0;  // a thread
  std::optional<std::uint64_t> static_shared_bytes, dynamic_shared_bytes;
  std::optional<std::uint64_t> shared_bytes;  // both together
  int launches = 1;                           // of the same kernel in the same shape
  std::optional<double> seconds;  // of all of them, while they were traced: no time of a launch
};

class KernelTrace {
 public:
  KernelTrace() = default;
  KernelTrace(const KernelTrace&) = delete;
  KernelTrace& operator=(const KernelTrace&) = delete;
  virtual ~KernelTrace() = default;

  virtual std::string why_not() = 0;
  // Returns the kernels that `work` queues on the device, in the order in which they first ran;
  // waits for them. Throws std::runtime_error, DeviceLost.
  virtual std::vector<ExecutedKernel> trace(const std::function<void()>& work) = 0;
};

// Return those of one of available_devices(), made on first use; they live as long as the process.
Counters& counters_of(const Device& device);
KernelTrace& kernel_trace_of(const Device& device);

}  // namespace attnlab
