#include "kernels/cuda/peak_kernels.h"

namespace attnlab::cuda {
namespace {

// They are those of peaks.cuh; the unit asserts that.
constexpr int kThreads = 512;
constexpr u64 kLoads = 8, kLoadBytes = 16;
constexpr u64 kFmaChains = 16, kEx2Chains = 8;
static_assert(kPeakChunkBytes == kThreads * kLoads * kLoadBytes);

// A multiprocessor gets this many. One, two, three or four of them run at once, as its registers
// and shared memory allow, and all of these divide it: no multiprocessor idles in a last round.
constexpr u64 kBlocks = 12;

constexpr u64 kSeed = 1;

const KernelEntry kFillF32 = {.name = "fill_normal_f32", .threads = kThreads};
const KernelEntry kFillF16 = {.name = "fill_normal_f16", .threads = kThreads};
const KernelEntry kFillBf16 = {.name = "fill_normal_bf16", .threads = kThreads};
const KernelEntry kRead = {.name = "read_chunks", .threads = kThreads};
const KernelEntry kCopy = {.name = "copy_chunks", .threads = kThreads};
const KernelEntry kReadShared = {.name = "read_shared", .threads = kThreads};
const KernelEntry kFma = {.name = "chain_fma", .threads = kThreads};
const KernelEntry kEx2 = {.name = "chain_ex2", .threads = kThreads};

}  // namespace

KernelUnit peaks_unit() {
  return {.name = "peaks",
          .source = R"(#include "kernels/device/peaks.cuh"
using namespace attnlab;
static_assert(peaks::kThreads == 512 && peaks::kLoads == 8, "as peak_kernels.cpp has it");
static_assert(peaks::kFmaChains == 16 && peaks::kEx2Chains == 8, "as peak_kernels.cpp has it");
#define ENTRY extern "C" __global__ void __launch_bounds__(512, 2)
ENTRY fill_normal_f32(device::F32* to, u64 pairs, u64 seed) {
  peaks::fill_normal(to, pairs, seed);
}
ENTRY fill_normal_f16(device::F16* to, u64 pairs, u64 seed) {
  peaks::fill_normal(to, pairs, seed);
}
ENTRY fill_normal_bf16(device::Bf16* to, u64 pairs, u64 seed) {
  peaks::fill_normal(to, pairs, seed);
}
ENTRY read_chunks(const uint4* data, u64 chunks, u64 stride, u32 steps, u32* results) {
  peaks::read_chunks(data, chunks, stride, steps, results);
}
ENTRY copy_chunks(const uint4* data, uint4* to, u64 chunks, u64 stride, u32 steps) {
  peaks::copy_chunks(data, to, chunks, stride, steps);
}
ENTRY read_shared(u32 steps, u32* results) { peaks::read_shared(steps, results); }
ENTRY chain_fma(u32 steps, float factor, float addend, float* results) {
  peaks::chain_fma(steps, factor, addend, results);
}
ENTRY chain_ex2(u32 steps, float* results) { peaks::chain_ex2(steps, results); }
)",
          .entries = {kFillF32, kFillF16, kFillBf16, kRead, kCopy, kReadShared, kFma, kEx2}};
}

PeakKernels::PeakKernels(const Device& device)
    : module_(load(peaks_unit(), device)),
      blocks_(kBlocks * static_cast<u64>(device.multiprocessors)),
      fill_f32_(*module_, kFillF32),
      fill_f16_(*module_, kFillF16),
      fill_bf16_(*module_, kFillBf16),
      read_(*module_, kRead),
      copy_(*module_, kCopy),
      read_shared_(*module_, kReadShared),
      ex2_(*module_, kEx2),
      fma_(*module_, kFma) {}

u64 PeakKernels::threads() const { return blocks_ * kThreads; }
u64 PeakKernels::results_bytes() const { return threads() * sizeof(u32); }

void PeakKernels::fill_normal(CUstream stream, Dtype dtype, void* to, u64 values) const {
  const u64 pairs = values / 2;
  switch (dtype) {
    case Dtype::e4m3: break;  // no peak is measured in it
    case Dtype::f32: return fill_f32_(stream, blocks_, to, pairs, kSeed);
    case Dtype::f16: return fill_f16_(stream, blocks_, to, pairs, kSeed);
    case Dtype::bf16: return fill_bf16_(stream, blocks_, to, pairs, kSeed);
  }
}

void PeakKernels::read(CUstream stream, const void* data, u64 chunks, u64 stride, u32 steps,
                       void* results) const {
  read_(stream, blocks_, data, chunks, stride, steps, results);
}

void PeakKernels::copy(CUstream stream, const void* data, void* to, u32 steps) const {
  copy_(stream, blocks_, data, to, blocks_ * steps, blocks_, steps);
}

u64 PeakKernels::shared_bytes_of_step() { return kLoads * kLoadBytes; }
u64 PeakKernels::fmas_of_step() { return kFmaChains; }
u64 PeakKernels::ex2s_of_step() { return kEx2Chains; }

void PeakKernels::read_shared(CUstream stream, u32 steps, void* results) const {
  read_shared_(stream, blocks_, steps, results);
}

void PeakKernels::fma(CUstream stream, u32 steps, float factor, float addend, void* results) const {
  fma_(stream, blocks_, steps, factor, addend, results);
}

void PeakKernels::ex2(CUstream stream, u32 steps, void* results) const {
  ex2_(stream, blocks_, steps, results);
}

}  // namespace attnlab::cuda
