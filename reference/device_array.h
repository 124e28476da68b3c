// Holds elements in memory of a Runtime, as long as the object lives.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/api/runtime.h"

namespace attnlab::reference {

template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  // Throws std::bad_alloc. The runtime outlives the object.
  DeviceArray(Runtime& runtime, std::int64_t count)
      : runtime_(&runtime),
        count_(count),
        data_(static_cast<T*>(runtime.allocate(count > 0 ? bytes() : sizeof(T)))) {}
  DeviceArray(DeviceArray&& other) noexcept
      : runtime_(std::exchange(other.runtime_, nullptr)),
        count_(std::exchange(other.count_, 0)),
        data_(std::exchange(other.data_, nullptr)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(count_, other.count_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceArray() {
    if (data_ != nullptr) runtime_->release(data_);
  }

  // Returns null if the array was made of nothing.
  T* get() const { return data_; }
  std::int64_t size() const { return count_; }

  void clear() { runtime_->fill(data_, 0, bytes()); }
  void write(const std::vector<T>& values) { runtime_->write(data_, values.data(), bytes()); }
  std::vector<T> read() const {
    std::vector<T> values(static_cast<std::size_t>(count_));
    if (count_ > 0) runtime_->read(values.data(), data_, bytes());
    return values;
  }

 private:
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count_) * sizeof(T); }

  Runtime* runtime_ = nullptr;
  std::int64_t count_ = 0;
  T* data_ = nullptr;
};

}  // namespace attnlab::reference
