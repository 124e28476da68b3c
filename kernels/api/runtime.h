// Runtime is a device at work: its memory, its queue and its clock. Kernels see nothing but memory
// of their device's runtime; the harness moves what it draws and judges in and out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/api/device.h"

namespace attnlab {

// The device does not answer any more, because of a launch before: nothing that is on it can be
// trusted, and only a new process can use it again.
class DeviceLost : public std::runtime_error {
 public:
  enum class Cause : std::uint8_t { error, hang };
  DeviceLost(Cause cause, const std::string& message)
      : std::runtime_error(message), cause_(cause) {}
  Cause cause() const { return cause_; }

 private:
  Cause cause_;
};

// SharedMemory is memory of a device as another process of this machine finds it.
struct SharedMemory {
  std::string handle;        // of an allocation, in hexadecimal digits: a GPU's CUipcMemHandle
  std::uint64_t offset = 0;  // bytes behind the allocation's first
};

class Runtime {
 public:
  Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  virtual ~Runtime() = default;

  // Returns whether a pointer to its memory can be read here.
  virtual bool is_host() const = 0;

  // Returns memory aligned to 256 bytes. Throws std::bad_alloc.
  virtual void* allocate(std::uint64_t bytes) = 0;
  virtual void release(void* data) noexcept = 0;
  // Offers memory to other processes until it is released. Returns nothing where it cannot.
  virtual std::optional<SharedMemory> share(const void* /*data*/) { return std::nullopt; }

  // These wait for all launches before, and are done when they return; they throw DeviceLost.
  virtual void fill(void* data, std::uint8_t byte, std::uint64_t bytes) = 0;
  virtual void write(void* data, const void* from_host, std::uint64_t bytes) = 0;
  virtual void read(void* to_host, const void* data, std::uint64_t bytes) = 0;
  // Copies within the device's memory; the two must not overlap.
  virtual void copy(void* data, const void* from, std::uint64_t bytes) = 0;
  // Hashes the contents: other bytes give another number, almost surely.
  virtual std::uint64_t fingerprint(const void* data, std::uint64_t bytes) = 0;
  // Counts how many of the elements, of 2 or 4 bytes each, consist of this byte, as fill() leaves
  // them. `bytes` are whole elements.
  virtual std::uint64_t count_filled(const void* data, std::uint8_t byte, std::uint64_t bytes,
                                     int element_bytes) = 0;
  virtual void synchronize() = 0;

  // Returns what Implementation::launch() gets.
  virtual void* queue() = 0;

  // Returns the seconds that `launches` calls of launch(i), i from 0, take together, without launch
  // cost where the device can be kept busy until all are queued. If the device begins earlier, all
  // launches are made again, after a call of `before_again`, which may be empty.
  using Launch = std::function<void(int index)>;
  virtual double seconds_of(int launches, const Launch& launch,
                            const std::function<void()>& before_again) = 0;
  virtual std::string timer() const = 0;
  // Counts tries of the two timing functions, of this process so far, that the device began before
  // all launches were queued. Each was made again, but for the fourth of one call, which counts.
  virtual int timer_retries() const { return 0; }
  // Returns empty if work of known length takes as long as it should by this clock, else the fault.
  virtual std::string check_timer() = 0;

  // Returns the seconds that `launches` take together when a graph replays them, which costs less
  // than launching. The graph is replayed twice; `between`, which may be empty, is called before
  // the second time, which is timed, and each time that one is made again. It is negative where the
  // device has no graphs. Throws std::runtime_error unless each launch puts the same kernels into
  // the graph as one alone does: else a launch that records nothing would go unseen.
  virtual double graph_seconds_of(int launches, const Launch& launch,
                                  const std::function<void()>& between) = 0;

  // A launch that takes longer has hung, and throws DeviceLost. Infinity: waits forever.
  virtual void set_timeout(double seconds) = 0;
};

// Returns that of one of available_devices(), made on first use; it lives as long as the process.
// Throws std::runtime_error where the device cannot be used.
Runtime& runtime_of(const Device& device);

// Returns the memory that the process itself sees.
Runtime& host_runtime();

}  // namespace attnlab
