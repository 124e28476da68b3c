// Makes the process's own memory a device: what a pointer says is there, and launches are done when
// they return.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "kernels/api/count_filled.h"
#include "kernels/api/hash.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

// Reads a clock that nobody corrects.
double raw_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class HostRuntime final : public Runtime {
 public:
  bool is_host() const override { return true; }

  void* allocate(std::uint64_t bytes) override {
    void* const data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) & ~(kAlignment - 1));
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  void release(void* data) noexcept override { std::free(data); }

  void fill(void* data, std::uint8_t byte, std::uint64_t bytes) override {
    std::memset(data, byte, bytes);
  }
  void write(void* data, const void* from_host, std::uint64_t bytes) override {
    std::memcpy(data, from_host, bytes);
  }
  void read(void* to_host, const void* data, std::uint64_t bytes) override {
    std::memcpy(to_host, data, bytes);
  }
  void copy(void* data, const void* from, std::uint64_t bytes) override {
    std::memcpy(data, from, bytes);
  }
  std::uint64_t fingerprint(const void* data, std::uint64_t bytes) override {
    return fnv1a(data, bytes);
  }
  std::uint64_t count_filled(const void* data, std::uint8_t byte, std::uint64_t bytes,
                             int element_bytes) override {
    return attnlab::count_filled(data, byte, bytes, element_bytes);
  }
  void synchronize() override {}
  void* queue() override { return nullptr; }

  double seconds_of(int launches, const Launch& launch,
                    const std::function<void()>& /*before_again*/) override {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < launches; ++i) launch(i);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::string timer() const override { return "steady_clock"; }

  // Measures waits by another clock. It takes several, for one may be interrupted between two looks
  // at the clocks.
  std::string check_timer() override {
    constexpr double kWait = 2e-3;
    constexpr int kTries = 5;
    double expected = 0.0;
    double seconds = 0.0;
    for (int i = 0; i < kTries; ++i) {
      seconds = seconds_of(1,
                           [&](int) {
                             const double start = raw_seconds();
                             do {
                               expected = raw_seconds() - start;
                             } while (expected < kWait);
                           },
                           {});
      if (std::abs(seconds - expected) <= 0.002 * expected + 1e-6) return "";
    }
    return timer() + " says that a wait took " + std::to_string(1e6 * seconds) +
           " us, CLOCK_MONOTONIC_RAW says " + std::to_string(1e6 * expected) + " us";
  }
  double graph_seconds_of(int /*launches*/, const Launch& /*launch*/,
                          const std::function<void()>& /*between*/) override {
    return -1.0;
  }
  void set_timeout(double /*seconds*/) override {}  // a thread that hangs cannot be ended

 private:
  static constexpr std::uint64_t kAlignment = 256;
};

}  // namespace

Runtime& host_runtime() {
  static HostRuntime runtime;
  return runtime;
}

}  // namespace attnlab
