// Tests what the emulated GPU must notice, each on a kernel that does it; right kernels run.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/registry.h"
#include "kernels/api/runtime.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/test_support.h"

namespace attnlab::cuda {
namespace {

constexpr int kThreads = 64;
constexpr int kTries = 20;  // of what goes wrong in some orders only
constexpr u64 kBlocks = 4;  // of kernels whose blocks wait for one another

class Emulator : public testing::Test {
 protected:
  void SetUp() override {
    for (const Device& device : available_devices()) {
      if (device.name == "emulated GPU") gpu_ = device;
    }
    ASSERT_EQ(gpu_.name, "emulated GPU") << why_no_device(Backend::cuda);
    set_compiler({.cache_folder = cache_.path().string()});
    y_ = runtime().allocate(kThreads * sizeof(float));
  }
  void TearDown() override {
    if (y_ != nullptr) runtime().release(y_);
    set_compiler({});
  }

  Runtime& runtime() { return runtime_of(gpu_); }

  // Launches blocks of 64 threads of a kernel (float* y) with this body; y[i] comes back.
  std::vector<float> run(const std::string& body, u64 shared_bytes = 1024,
                         const LaunchGrid& grid = {.blocks = 1}) {
    const KernelEntry entry = {
        .name = "kernel", .threads = kThreads, .dynamic_shared_bytes = shared_bytes};
    const KernelUnit unit = {.name = "kernel",
                             .source =
                                 "#include \"kernels/ptx/acquire_release.cuh\"\n"
                                 "#include \"kernels/ptx/barrier.cuh\"\n"
                                 "#include \"kernels/ptx/cp_async.cuh\"\n"
                                 "#include \"kernels/ptx/cvta.cuh\"\n"
                                 "#include \"kernels/ptx/griddepcontrol.cuh\"\n"
                                 "#include \"kernels/ptx/mbarrier.cuh\"\n"
                                 "#include \"kernels/ptx/st.cuh\"\n"
                                 "#include \"kernels/ptx/tma.cuh\"\n"
                                 "using namespace attnlab;\n"
                                 "__device__ float source[64];\n"
                                 "__device__ u32 tickets, ends;\n"
                                 "__device__ i32 turn;\n"
                                 "extern \"C\" __global__ void __launch_bounds__(64)\n"
                                 "kernel(float* y) {\n"
                                 "  extern __shared__ u8 memory[];\n"
                                 "  const u32 i = threadIdx.x;\n" +
                                 body + "}\n",
                             .entries = {entry}};
    const std::shared_ptr<const Module> module = load(unit, gpu_);
    const Kernel<void*> kernel(*module, entry);
    kernel(as_stream(runtime().queue()), grid, y_);
    runtime().synchronize();
    std::vector<float> y(kThreads);
    runtime().read(y.data(), y_, y.size() * sizeof(float));
    return y;
  }

  std::string failure_of(const std::string& body, const LaunchGrid& grid = {.blocks = 1}) {
    try {
      run(body, 1024, grid);
      return "";
    } catch (const DeviceLost& lost) {
      return lost.what();
    }
  }
  // Returns what is said of the first of some launches that fails.
  std::string first_failure_of(const std::string& body) {
    std::string words;
    for (int i = 0; i < kTries && words.empty(); ++i) words = failure_of(body);
    return words;
  }

  // Returns what is said of all of some launches that fail.
  std::string failures_of(const std::string& body) {
    std::string words;
    for (int i = 0; i < kTries; ++i) words += failure_of(body) + "\n";
    return words;
  }

  // Counts how many of some launches leave a y that is not i.
  int wrong_launches(const std::string& body, u64 blocks = 1) {
    int wrong = 0;
    for (int i = 0; i < kTries; ++i) {
      bool is_right = true;
      const std::vector<float> y = run(body, 1024, {.blocks = blocks});
      for (int j = 0; j < kThreads; ++j) {
        is_right = is_right && y[static_cast<std::size_t>(j)] == static_cast<float>(j);
      }
      wrong += is_right ? 0 : 1;
    }
    return wrong;
  }

  Device gpu_;
  TestFolder cache_;
  void* y_ = nullptr;
};

// Sends a thread's number by way of its neighbour's place in shared memory.
std::string exchange(const std::string& barrier) {
  return "float* const sI = reinterpret_cast<float*>(memory);\n"
         "sI[63 - i] = static_cast<float>(63 - i);\n" +
         barrier + "y[i] = sI[i];\n";
}

TEST_F(Emulator, ThreadsMeetAtABarrier) {
  EXPECT_EQ(wrong_launches(exchange("__syncthreads();\n")), 0);
  EXPECT_EQ(wrong_launches(exchange("ptx::barrier_sync(3, 64);\n")), 0);
}

TEST_F(Emulator, AMissingBarrierIsARace) {
  const std::string words = first_failure_of(exchange(""));
  EXPECT_NE(words.find("a race for the word at "), std::string::npos) << words;
}

TEST_F(Emulator, BarriersOfOthersOrderNothing) {
  const std::string words = first_failure_of(exchange("ptx::barrier_sync(1 + i / 32, 32);\n"));
  EXPECT_NE(words.find("no barrier orders that after warp "), std::string::npos) << words;
}

// 16 threads copy, by cp.async, what they have written to global memory.
std::string copy(const std::string& wait) {
  return "source[i] = static_cast<float>(i);\n"
         "__syncthreads();\n"
         "const u32 to = ptx::cvta_to_shared(memory) + i * 16;\n"
         "if (i < 16) ptx::cp_async_cg_16(to, source + 4 * i, 16);\n"
         "ptx::cp_async_commit_group();\n" +
         wait +
         "__syncthreads();\n"
         "y[i] = reinterpret_cast<const float*>(memory)[i];\n";
}

TEST_F(Emulator, AKernelThatStartsEarlyMustWait) {
  const std::string body = "y[i] = static_cast<float>(i);\n";
  const LaunchGrid early = {.blocks = 1, .starts_early = true};
  EXPECT_EQ(failure_of("ptx::griddepcontrol_wait();\n" + body, early), "");
  EXPECT_EQ(failure_of(body), "");
  for (const char* wait : {"", "if (i < 63) ptx::griddepcontrol_wait();\n"}) {
    const std::string words = failure_of(wait + body, early);
    EXPECT_NE(words.find("without griddepcontrol.wait"), std::string::npos) << words;
  }
}

TEST_F(Emulator, CopiesHaveArrivedWhereOneHasWaited) {
  EXPECT_EQ(wrong_launches(copy("ptx::cp_async_wait_group<0>();\n")), 0);
}

TEST_F(Emulator, AMissingWaitIsARace) {
  for (const char* wait : {"", "ptx::cp_async_wait_group<1>();\n"}) {
    const std::string words = first_failure_of(copy(wait));
    EXPECT_NE(words.find("no barrier orders that after a copy of warp 0's write"),
              std::string::npos)
        << words;
  }
}

// One thread adds what all have written to shared memory by one bulk copy; all then write there.
std::string add(const std::string& wait) {
  return "float* const sI = reinterpret_cast<float*>(memory);\n"
         "sI[i] = static_cast<float>(i);\n"
         "source[i] = 0.0f;\n"
         "__syncthreads();\n"
         "if (i == 0) {\n"
         "  ptx::cp_reduce_async_bulk_add_f32(source, ptx::cvta_to_shared(memory), 256);\n"
         "  ptx::cp_async_bulk_commit_group();\n" +
         wait +
         "}\n"
         "__syncthreads();\n"
         "sI[i] = -1.0f;\n"
         "y[i] = source[i];\n";
}

TEST_F(Emulator, AnAdditionThatHasReadIsStillToCome) {
  EXPECT_EQ(wrong_launches(add("ptx::cp_async_bulk_wait_group<0>();\n")), 0);
  EXPECT_GT(wrong_launches(add("ptx::cp_async_bulk_wait_group_read<0>();\n")), 0);
  const std::string words = first_failure_of(add(""));
  EXPECT_NE(words.find("a bulk store of warp 0"), std::string::npos) << words;
}

// A phase that somebody has ended orders what was before it in front of what is behind.
std::string hand_over(const std::string& wait) {
  return "const u32 barrier = ptx::cvta_to_shared(memory) + 512;\n"
         "float* const sI = reinterpret_cast<float*>(memory);\n"
         "if (i == 0) ptx::mbarrier_init(barrier, 32);\n"
         "__syncthreads();\n"
         "y[i] = static_cast<float>(i);\n"
         "if (i < 32) {\n"
         "  sI[i] = static_cast<float>(i + 32);\n"
         "  ptx::mbarrier_arrive(barrier);\n"
         "} else {\n" +
         wait +
         "  y[i] = sI[i - 32];\n"
         "}\n";
}

TEST_F(Emulator, APhaseOrdersWhatIsHandedOver) {
  EXPECT_EQ(wrong_launches(hand_over("while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {}\n")),
            0);
  // Where the phase is over before anybody looks, this waits for the next one in vain instead.
  const std::string words =
      failures_of(hand_over("while (!ptx::mbarrier_try_wait_parity(barrier, 1)) {}\n"));
  EXPECT_NE(words.find("a race for the word at "), std::string::npos) << words;
}

TEST_F(Emulator, SharedMemoryBeginsAsNoNumber) {
  const std::vector<float> y = run("y[i] = reinterpret_cast<const float*>(memory)[i];\n");
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

TEST_F(Emulator, LanesAtDifferentStepsFail) {
  const std::string words = failure_of(
      "if (i % 2 == 0) { __syncwarp(); } else { y[i] = __shfl_xor_sync(0xFFFFFFFFu, 1.0f, 1); }\n");
  EXPECT_NE(words.find("while others of its group are at"), std::string::npos) << words;
}

TEST_F(Emulator, ABarrierThatNotAllReachIsADeadlock) {
  const std::string words = failure_of("if (i < 32) ptx::barrier_sync(1, 64);\ny[i] = 0;\n");
  EXPECT_NE(words.find("deadlock: warp 0 waits at a named barrier, warp 1 has ended"),
            std::string::npos)
      << words;
}

TEST_F(Emulator, APhaseThatNobodyEndsIsADeadlock) {
  const std::string words = failure_of(
      "const u32 barrier = ptx::cvta_to_shared(memory);\n"
      "if (i == 0) ptx::mbarrier_init(barrier, 1);\n"
      "__syncthreads();\n"
      "while (!ptx::mbarrier_try_wait_parity(barrier, 0)) {}\n");
  EXPECT_NE(words.find("deadlock: warp 0 waits at an mbarrier"), std::string::npos) << words;
}

TEST_F(Emulator, ABarrierForOtherNumbersFails) {
  const std::string words = failure_of("ptx::barrier_sync(1, i < 32 ? 64 : 96);\n");
  EXPECT_NE(words.find("at barrier 1 for"), std::string::npos) << words;
}

TEST_F(Emulator, TheEndOfSharedMemoryIsGuarded) {
  const std::string words = failure_of(
      "if (i < 32) ptx::st_shared_u32(ptx::cvta_to_shared(memory) + 1020 + 4 * (i == 5), 1u);\n");
  EXPECT_NE(words.find("over the end of its 1024 bytes of shared memory (block 0, thread 5)"),
            std::string::npos)
      << words;
}

TEST_F(Emulator, AnAddressThatIsNotAlignedFails) {
  const std::string words =
      failure_of("ptx::cp_async_cg_16(ptx::cvta_to_shared(memory) + 8, source, 16);\n");
  EXPECT_NE(words.find("not aligned to 16"), std::string::npos) << words;
}

// Numbers the blocks by their tickets and by their ends, which are alike where they take turns.
std::string take_turns(const std::string& wait, const std::string& end) {
  return "if (i >= 4) y[i] = static_cast<float>(i);\n"
         "if (i == 0) {\n"
         "  const i32 ticket = static_cast<i32>(atomicAdd(&tickets, 1u) % 4);\n" +
         wait + end + "}\n";
}
const std::string kWait = "while (ptx::ld_acquire_gpu_global(&turn) != ticket) {}\n";
const std::string kEnd = "y[ticket] = static_cast<float>(atomicAdd(&ends, 1u) % 4);\n";
const std::string kHandOn = "ptx::st_release_gpu_global(&turn, (ticket + 1) % 4);\n";

// A block that stops does so in one of four cases, so some of three blocks in 37 of 64 launches.
constexpr int kOften = kTries / 4;

TEST_F(Emulator, ABlockIsOvertakenByLaterTickets) {
  EXPECT_GE(wrong_launches(take_turns("", kEnd), kBlocks), kOften);
  EXPECT_EQ(wrong_launches(take_turns(kWait, kEnd + kHandOn), kBlocks), 0);
}

TEST_F(Emulator, ABlockIsOvertakenWhereItHasHandedOnItsTurn) {
  EXPECT_GE(wrong_launches(take_turns(kWait, kHandOn + kEnd), kBlocks), kOften);
}

TEST_F(Emulator, ABlockAsksWhetherAnyThreadSaysSo) {
  const std::string counts_yes =
      "int yes = 0;\n"
      "for (int turn = 0; turn < 8; ++turn) yes += __syncthreads_or(turn % 2 == 1 && i == 8 * "
      "turn);\n"
      "y[i] = i + yes - 4;\n";
  EXPECT_EQ(wrong_launches(counts_yes), 0);
}

}  // namespace
}  // namespace attnlab::cuda
