// Fakes devices: one with memory of its own, where an access that bypasses the Runtime crashes, and
// one with little of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels/api/count_filled.h"
#include "kernels/api/hash.h"
#include "kernels/api/runtime.h"

namespace attnlab::fake {

class SeparateMemory : public Runtime {
 public:
  bool is_host() const override { return false; }

  void* allocate(std::uint64_t bytes) override {
    if (bytes > limit_bytes) throw std::bad_alloc();
    void* const here = obtain(bytes);
    blocks_[reinterpret_cast<std::uintptr_t>(here) | kApart] = bytes;
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(here) | kApart);
  }
  void release(void* data) noexcept override {
    const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(data));
    give_back(translate(data), block->second);
    blocks_.erase(block);
  }

  void fill(void* data, std::uint8_t byte, std::uint64_t bytes) override {
    std::memset(on_device(data, bytes), byte, bytes);
  }
  void write(void* data, const void* from_host, std::uint64_t bytes) override {
    std::memcpy(on_device(data, bytes), in_process(from_host), bytes);
  }
  void read(void* to_host, const void* data, std::uint64_t bytes) override {
    std::memcpy(const_cast<void*>(in_process(to_host)), on_device(data, bytes), bytes);
    ++reads;
  }
  void copy(void* data, const void* from, std::uint64_t bytes) override {
    std::memcpy(on_device(data, bytes), on_device(from, bytes), bytes);
  }
  std::uint64_t fingerprint(const void* data, std::uint64_t bytes) override {
    return fnv1a(on_device(data, bytes), bytes);
  }
  std::uint64_t count_filled(const void* data, std::uint8_t byte, std::uint64_t bytes,
                             int element_bytes) override {
    return attnlab::count_filled(on_device(data, bytes), byte, bytes, element_bytes);
  }
  void synchronize() override {}
  void* queue() override { return this; }

  double seconds_of(int launches, const Launch& launch,
                    const std::function<void()>& before_again) override {
    for (int i = 0; i < launches; ++i) launch(i);
    if (is_late) {
      if (before_again) before_again();
      for (int i = 0; i < launches; ++i) launch(i);
    }
    return 1e-3 * launches;
  }
  std::string timer() const override { return "none"; }
  std::string check_timer() override { return ""; }
  double graph_seconds_of(int launches, const Launch& launch,
                          const std::function<void()>& between) override {
    if (!has_graphs) return -1.0;
    seconds_of(launches, launch, {});
    if (between) between();
    return graphs_do_nothing ? 1e-3 * launches : seconds_of(launches, launch, between);
  }
  void set_timeout(double /*seconds*/) override {}

  // Reaches the device's memory as its kernels do. `data` may lie within a buffer.
  template <class T>
  T* on_device(T* data, std::uint64_t bytes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    auto block = blocks_.upper_bound(address);
    if (block == blocks_.begin() || (--block)->first + block->second < address + bytes) {
      throw std::logic_error("not memory of the device, or past the end of a buffer");
    }
    return translate(data);
  }
  bool owns(const void* data) const {
    return (reinterpret_cast<std::uintptr_t>(data) & kApart) != 0;
  }

  std::size_t live() const { return blocks_.size(); }

  std::uint64_t limit_bytes = std::uint64_t{1} << 30;  // of one allocation
  int reads = 0;
  bool has_graphs = false;
  bool is_late = false;            // every timing is made again
  bool graphs_do_nothing = false;  // when they are replayed the second time

 protected:
  static constexpr std::size_t kAlignment = 256;

  // Returns the process's memory behind a buffer, aligned.
  virtual void* obtain(std::uint64_t bytes) {
    return ::operator new (bytes, std::align_val_t{kAlignment});
  }
  virtual void give_back(void* data, std::uint64_t /*bytes*/) noexcept {
    ::operator delete (data, std::align_val_t{kAlignment});
  }

 private:
  // No address of a process has this bit: neither x86-64 nor AArch64 lets a program read there.
  static constexpr std::uintptr_t kApart = std::uintptr_t{1} << 55;

  template <class T>
  static T* translate(T* data) {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(data) & ~kApart);
  }
  const void* in_process(const void* data) const {
    if (owns(data)) throw std::logic_error("a pointer of the device where one of the host belongs");
    return data;
  }

  std::map<std::uintptr_t, std::uint64_t> blocks_;  // address on the device -> bytes
};

// Holds so many bytes in all, which are memory of the process.
class LimitedMemory : public Runtime {
 public:
  bool is_host() const override { return true; }

  void* allocate(std::uint64_t bytes) override {
    if (used_bytes + bytes > limit_bytes) throw std::bad_alloc();
    void* const data = host_.allocate(bytes);
    blocks_[data] = bytes;
    used_bytes += bytes;
    peak_bytes = std::max(peak_bytes, used_bytes);
    return data;
  }
  void release(void* data) noexcept override {
    const auto block = blocks_.find(data);
    used_bytes -= block->second;
    blocks_.erase(block);
    host_.release(data);
  }

  void fill(void* data, std::uint8_t byte, std::uint64_t bytes) override {
    host_.fill(data, byte, bytes);
  }
  void write(void* data, const void* from_host, std::uint64_t bytes) override {
    host_.write(data, from_host, bytes);
  }
  void read(void* to_host, const void* data, std::uint64_t bytes) override {
    host_.read(to_host, data, bytes);
  }
  void copy(void* data, const void* from, std::uint64_t bytes) override {
    host_.copy(data, from, bytes);
  }
  std::uint64_t fingerprint(const void* data, std::uint64_t bytes) override {
    return host_.fingerprint(data, bytes);
  }
  std::uint64_t count_filled(const void* data, std::uint8_t byte, std::uint64_t bytes,
                             int element_bytes) override {
    return host_.count_filled(data, byte, bytes, element_bytes);
  }
  void synchronize() override { host_.synchronize(); }
  void* queue() override { return host_.queue(); }
  double seconds_of(int launches, const Launch& launch,
                    const std::function<void()>& before_again) override {
    return host_.seconds_of(launches, launch, before_again);
  }
  std::string timer() const override { return host_.timer(); }
  std::string check_timer() override { return host_.check_timer(); }
  double graph_seconds_of(int launches, const Launch& launch,
                          const std::function<void()>& between) override {
    return host_.graph_seconds_of(launches, launch, between);
  }
  void set_timeout(double seconds) override { host_.set_timeout(seconds); }

  std::uint64_t limit_bytes = ~std::uint64_t{0};
  std::uint64_t used_bytes = 0;
  std::uint64_t peak_bytes = 0;

 private:
  Runtime& host_ = host_runtime();
  std::map<void*, std::uint64_t> blocks_;
};

}  // namespace attnlab::fake
