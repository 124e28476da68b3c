// Makes kernels functions: an entry of a module with the types of its parameters.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/cuda/jit.h"
#include "kernels/shared/base.h"

namespace attnlab::cuda {

// LaunchGrid has the blocks of a launch, in a line, and what else the launch asks of the GPU.
struct LaunchGrid {
  u64 blocks = 0;
  // This many neighbours run at once and reach each other's shared memory: 1 to 8, a divisor of
  // `blocks`. More than 1 needs sm_90.
  int cluster_blocks = 1;
  // The kernel may start before the one in front of it in the stream has ended (programmatic stream
  // serialization, sm_90): it must griddepcontrol_wait() before it touches that one's memory.
  bool starts_early = false;
};

// LaunchShape is one launch of an entry.
struct LaunchShape {
  LaunchGrid grid;
  int threads = 0;  // of a block
  u64 dynamic_shared_bytes = 0;
};

// `parameters` are the addresses of the values of the kernel's parameters. `name` is for the
// message of what it throws: as check() does, and std::runtime_error where the grid has more blocks
// than a line of them can have (2^31 - 1), or clusters that do not divide it.
void launch(CUfunction function, const std::string& name, const LaunchShape& shape, CUstream stream,
            void** parameters);

// Set zeros from `data` on; both are asynchronous. `what` is for the message of what they throw: as
// check() does. Words have 4 bytes and are aligned.
void clear_bytes(CUstream stream, void* data, u64 bytes, const std::string& what);
void clear_words(CUstream stream, void* data, u64 words, const std::string& what);

// `Parameters` are the types of the kernel's parameters, which nothing can check: a kernel with
// more than a few takes structs, mostly one, of a header that host and GPU share.
template <class... Parameters>
class Kernel {
 public:
  static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                "parameters are copied as bytes");

  Kernel() = default;
  // Throws std::runtime_error if the module has no such entry.
  Kernel(const Module& module, const KernelEntry& entry)
      : function_(module.function(entry.name)), entry_(entry) {}

  // Launches asynchronously.
  void operator()(CUstream stream, u64 blocks, const Parameters&... parameters) const {
    (*this)(stream, LaunchGrid{.blocks = blocks}, parameters...);
  }
  // Launches as kernel(stream, {.blocks = 64, .cluster_blocks = 2}, ...).
  void operator()(CUstream stream, const LaunchGrid& grid, const Parameters&... parameters) const {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&parameters))...};
    launch(function_, entry_.name,
           {.grid = grid,
            .threads = entry_.threads,
            .dynamic_shared_bytes = entry_.dynamic_shared_bytes},
           stream, addresses);
  }

 private:
  CUfunction function_ = nullptr;
  KernelEntry entry_;
};

}  // namespace attnlab::cuda
