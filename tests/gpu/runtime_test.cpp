// Tests memory, fingerprint and clock of a real GPU.
#include <chrono>
#include <cstdint>
#include <new>
#include <optional>
#include <random>
#include <thread>

#include "harness/tensors/arena.h"
#include "kernels/cuda/instruments.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes random_bytes(std::uint64_t count) {
  std::mt19937 generator(static_cast<unsigned>(count));
  Bytes bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(generator());
  return bytes;
}

class GpuRuntime : public GpuTest {
 protected:
  // Makes a buffer with these contents, as long as the test runs.
  std::uint8_t* upload(const Bytes& bytes) {
    buffers_.push_back(arena().allocate("test", bytes.size()));
    auto* const data = static_cast<std::uint8_t*>(buffers_.back().get());
    runtime().write(data, bytes.data(), bytes.size());
    return data;
  }
  Bytes download(const void* data, std::uint64_t count) {
    Bytes bytes(count);
    runtime().read(bytes.data(), data, count);
    return bytes;
  }
  Arena& arena() {
    if (!arena_) arena_.emplace(runtime());
    return *arena_;
  }

 private:
  std::optional<Arena> arena_;
  std::vector<Arena::Buffer> buffers_;
};

constexpr std::uint64_t kOddSizes[] = {1, 2, 3, 4, 5, 257, 1031, (1 << 20) + 7};

TEST_F(GpuRuntime, WhatIsWrittenIsReadBack) {
  EXPECT_FALSE(runtime().is_host());
  for (const std::uint64_t count : kOddSizes) {
    SCOPED_TRACE(count);
    void* const data = runtime().allocate(count);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 256, 0U);
    const Bytes bytes = random_bytes(count);
    runtime().write(data, bytes.data(), count);
    EXPECT_EQ(download(data, count), bytes);
    runtime().release(data);
  }
}

TEST_F(GpuRuntime, FillsNoByteMoreThanAsked) {
  for (const std::uint64_t count : kOddSizes) {
    if (count < 3) continue;
    SCOPED_TRACE(count);
    Bytes bytes = random_bytes(count);
    std::uint8_t* const data = upload(bytes);
    runtime().fill(data + 1, 0xA5, count - 2);
    std::fill(bytes.begin() + 1, bytes.end() - 1, std::uint8_t{0xA5});
    EXPECT_EQ(download(data, count), bytes);
  }
}

TEST_F(GpuRuntime, FingerprintIsOfTheContentsAlone) {
  for (const std::uint64_t count : kOddSizes) {
    SCOPED_TRACE(count);
    const Bytes bytes = random_bytes(count);
    const std::uint8_t* const data = upload(bytes);
    const std::uint64_t fingerprint = runtime().fingerprint(data, count);
    EXPECT_EQ(runtime().fingerprint(data, count), fingerprint);
    EXPECT_EQ(runtime().fingerprint(upload(bytes), count), fingerprint);
  }
}

TEST_F(GpuRuntime, FingerprintSeesAChangeOfAnyByte) {
  constexpr std::uint64_t kCount = 1031;  // the last three are no whole word
  const Bytes bytes = random_bytes(kCount);
  std::uint8_t* const data = upload(bytes);
  const std::uint64_t fingerprint = runtime().fingerprint(data, kCount);
  for (std::uint64_t place = 0; place < kCount; ++place) {
    const auto changed = static_cast<std::uint8_t>(bytes[place] ^ 1U);
    runtime().write(data + place, &changed, 1);
    ASSERT_NE(runtime().fingerprint(data, kCount), fingerprint) << "byte " << place;
    runtime().write(data + place, &bytes[place], 1);
  }
  EXPECT_EQ(runtime().fingerprint(data, kCount), fingerprint);
}

TEST_F(GpuRuntime, FingerprintSeesWordsThatChangePlaces) {
  Bytes bytes = random_bytes(4096);
  const std::uint64_t fingerprint = runtime().fingerprint(upload(bytes), bytes.size());
  std::swap_ranges(bytes.begin() + 400, bytes.begin() + 404, bytes.begin() + 2000);
  EXPECT_NE(runtime().fingerprint(upload(bytes), bytes.size()), fingerprint);
}

// One element that was written is seen wherever it lies, by all its bytes and not by one of them.
TEST_F(GpuRuntime, CountsWhatNobodyWrote) {
  constexpr std::uint8_t kByte = 0x7B;
  for (const std::uint64_t count : {4U, 6U, 258U, 1030U, (1U << 20U) + 8U}) {
    for (const int element_bytes : {2, 4}) {
      const auto size = static_cast<std::uint64_t>(element_bytes);
      if (count % size != 0) continue;
      SCOPED_TRACE(count);
      std::uint8_t* const data = upload(Bytes(count, kByte));
      const std::uint64_t elements = count / size;
      EXPECT_EQ(runtime().count_filled(data, kByte, count, element_bytes), elements);
      EXPECT_EQ(runtime().count_filled(data, 0xFF, count, element_bytes), 0U);
      for (const std::uint64_t place : {std::uint64_t{0}, count / 2, count - 1}) {
        const std::uint8_t written = kByte ^ 1U;
        runtime().write(data + place, &written, 1);
        EXPECT_EQ(runtime().count_filled(data, kByte, count, element_bytes), elements - 1);
        runtime().write(data + place, &kByte, 1);
      }
    }
  }
}

TEST_F(GpuRuntime, TheTimerPassesItsSelfTest) { EXPECT_EQ(runtime().check_timer(), ""); }

// Spins read the GPU's own clock of nanoseconds, the timer is made of events.
class GpuTimer : public GpuRuntime {
 protected:
  static constexpr double kSpinSeconds = 1e-3;
  static constexpr int kLaunches = 5;

  Runtime::Launch spin() {
    if (!instruments_) instruments_.emplace(gpu());
    return
        [this](int) { instruments_->spin(static_cast<CUstream>(runtime().queue()), kSpinSeconds); };
  }

  static void expect_known_length(double seconds) {
    EXPECT_NEAR(seconds, kLaunches * kSpinSeconds, 0.02 * kLaunches * kSpinSeconds);
  }

 private:
  std::optional<cuda::Instruments> instruments_;
};

TEST_F(GpuTimer, TellsTheLengthOfLaunches) {
  const Runtime::Launch launch = spin();
  expect_known_length(runtime().seconds_of(kLaunches, launch, {}));
}

TEST_F(GpuTimer, TellsTheLengthOfLaunchesInAGraph) {
  const Runtime::Launch launch = spin();
  expect_known_length(runtime().graph_seconds_of(kLaunches, launch, {}));
}

// Poison says only that one of a graph's launches wrote.
TEST_F(GpuTimer, AGraphWithoutSomeOfItsLaunchesIsRejected) {
  const Runtime::Launch launch = spin();
  const auto every_other = [&](int index) {
    if (index % 2 == 0) launch(index);
  };
  EXPECT_THROW(runtime().graph_seconds_of(kLaunches, every_other, {}), std::runtime_error);
  const auto another = [&](int index) {
    launch(index);
    if (index == 1) launch(index);
  };
  EXPECT_THROW(runtime().graph_seconds_of(kLaunches, another, {}), std::runtime_error);
}

// The first launch is queued so late that all are made again.
TEST_F(GpuTimer, GivesLaunchesTheirNumbers) {
  const Runtime::Launch launch = spin();
  std::vector<int> numbers;
  std::size_t again = 0;
  const int retries = runtime().timer_retries();
  runtime().seconds_of(
      3,
      [&](int index) {
        if (numbers.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        numbers.push_back(index);
        launch(index);
      },
      [&] { ++again; });
  EXPECT_GE(again, 1U);
  EXPECT_GE(static_cast<std::size_t>(runtime().timer_retries() - retries), again);
  EXPECT_EQ(numbers.size(), 3 * (again + 1));
  for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int>(i % 3));
}

TEST_F(GpuRuntime, OutOfMemoryIsNoFault) {
  EXPECT_THROW(runtime().allocate(gpu().memory_bytes), std::bad_alloc);
  EXPECT_THROW(arena().allocate("all of it", gpu().memory_bytes), std::bad_alloc);
  EXPECT_EQ(arena().current_bytes(), 0U);
  const Bytes bytes = random_bytes(1000);
  EXPECT_EQ(download(upload(bytes), bytes.size()), bytes);
}

TEST_F(GpuRuntime, GuardsTellWhoWasOverrun) {
  const Arena::Buffer before = arena().allocate("before", 1000);
  const Arena::Buffer victim = arena().allocate("victim", 1001);
  const Arena::Buffer after = arena().allocate("after", 1000);
  auto* const data = static_cast<std::uint8_t*>(victim.get());
  EXPECT_EQ(arena().restore_guards(), "");
  const std::uint8_t zero = 0;

  runtime().write(data + 1001, &zero, 1);
  EXPECT_EQ(arena().restore_guards(), "wrote outside victim, 0 bytes past its last byte");
  EXPECT_EQ(arena().restore_guards(), "") << "the guard was not restored";

  runtime().write(data - 5, &zero, 1);
  EXPECT_EQ(arena().restore_guards(), "wrote outside victim, 5 bytes before its first byte");
  EXPECT_EQ(arena().restore_guards(), "");

  runtime().write(data + 1000, &zero, 1);  // its own last byte
  EXPECT_EQ(arena().restore_guards(), "");
}

}  // namespace
}  // namespace attnlab
