// Runs the runtime's own kernels (kernels/device/instruments.cuh): a spin to queue work behind, a
// fingerprint of memory, which also sweeps the L2 by reading, a count of elements that nobody
// wrote, noise, and a copy of known size.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "kernels/cuda/jit.h"

namespace attnlab::cuda {

class Instruments {
 public:
  // Compiles the kernels; the device's context must be current.
  explicit Instruments(const Device& device);
  ~Instruments();
  Instruments(const Instruments&) = delete;
  Instruments& operator=(const Instruments&) = delete;

  // Queues a kernel that runs for `seconds`, and for `cycles` of the multiprocessor's clock.
  void spin(CUstream stream, double seconds, std::uint64_t cycles = 0);
  // Returns whether the last spin has ended, at any time.
  bool spin_has_ended() const;
  // Return how long the last spin found itself running, once it has ended.
  double spin_seconds() const;
  std::uint64_t spin_cycles() const;

  void fingerprint(CUstream stream, const void* data, std::uint64_t bytes);
  // Counts as Runtime::count_filled() does.
  void count_filled(CUstream stream, const void* data, std::uint8_t byte, std::uint64_t bytes,
                    int element_bytes);
  // Returns the result of the last fingerprint or count, once the stream has been waited for.
  std::uint64_t last_sum() const;

  // Both take whole multiples of 16 bytes.
  // Fills memory with numbers that look random.
  void noise(CUstream stream, void* data, std::uint64_t bytes);
  // Copies from one place in the GPU's memory to another, by a kernel.
  void copy(CUstream stream, const void* from, void* to, std::uint64_t bytes);

 private:
  struct Page;  // memory that the host and the GPU see
  void launch(CUfunction function, const char* name, CUstream stream, void** arguments) const;
  void add_up(CUfunction function, const char* name, CUstream stream, void** arguments) const;

  std::shared_ptr<const Module> module_;
  CUfunction spin_ = nullptr;
  CUfunction fingerprint_ = nullptr;
  CUfunction count_filled_ = nullptr;
  CUfunction noise_ = nullptr;
  CUfunction copy_ = nullptr;
  Page* page_ = nullptr;
  CUdeviceptr device_page_ = 0;
  CUdeviceptr sum_ = 0;
  unsigned blocks_ = 1;
};

}  // namespace attnlab::cuda
