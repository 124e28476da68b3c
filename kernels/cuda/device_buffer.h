// Owns memory of a GPU, as long as the object lives.
#pragma once

#include <cstdint>

#include "kernels/api/runtime.h"

namespace attnlab::cuda {

class DeviceBuffer {
 public:
  // Throws std::bad_alloc, as Runtime::allocate() does. The runtime outlives the object.
  DeviceBuffer(Runtime& runtime, std::uint64_t bytes)
      : runtime_(runtime), data_(runtime.allocate(bytes)) {}
  ~DeviceBuffer() { runtime_.release(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  void* get() const { return data_; }

 private:
  Runtime& runtime_;
  void* data_;
};

}  // namespace attnlab::cuda
