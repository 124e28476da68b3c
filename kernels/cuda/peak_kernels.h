// Offers the kernels of kernels/device/peaks.cuh as functions. Each launch does known, equal work.
#pragma once

#include <cuda.h>

#include <memory>

#include "kernels/api/problem.h"
#include "kernels/cuda/launch.h"

namespace attnlab::cuda {

KernelUnit peaks_unit();

// Memory comes in chunks, of which a block takes one at a time.
inline constexpr u64 kPeakChunkBytes = 64 << 10;

class PeakKernels {
 public:
  // Compiles the kernels; the device's context must be current.
  explicit PeakKernels(const Device& device);

  u64 blocks() const { return blocks_; }
  u64 threads() const;        // of the grid
  u64 results_bytes() const;  // what `results` below must have: 4 bytes a thread

  // Fills with N(0,1), full mantissas; an even number of values.
  void fill_normal(CUstream stream, Dtype dtype, void* to, u64 values) const;

  // Every block reads `steps` chunks of the buffer, the first of them the block's own (modulo their
  // number), each `stride` behind the one before. With stride blocks() and blocks() * steps chunks
  // that is everything once.
  void read(CUstream stream, const void* data, u64 chunks, u64 stride, u32 steps,
            void* results) const;
  // Copies everything once, blocks() * steps chunks.
  void copy(CUstream stream, const void* data, void* to, u32 steps) const;

  // Return what a step of a thread does: loads of shared memory, multiply-adds, powers of two.
  static u64 shared_bytes_of_step();
  static u64 fmas_of_step();
  static u64 ex2s_of_step();
  void read_shared(CUstream stream, u32 steps, void* results) const;
  void fma(CUstream stream, u32 steps, float factor, float addend, void* results) const;
  void ex2(CUstream stream, u32 steps, void* results) const;

 private:
  using Fill = Kernel<void*, u64, u64>;

  std::shared_ptr<const Module> module_;
  u64 blocks_;
  Fill fill_f32_, fill_f16_, fill_bf16_;
  Kernel<const void*, u64, u64, u32, void*> read_;
  Kernel<const void*, void*, u64, u64, u32> copy_;
  Kernel<u32, void*> read_shared_, ex2_;
  Kernel<u32, float, float, void*> fma_;
};

}  // namespace attnlab::cuda
