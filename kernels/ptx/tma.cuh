// sm_90. PTX ISA: cp.async.bulk.tensor, cp.async.bulk, cp.reduce.async.bulk. One thread copies a
// box of a tensor to shared memory: `to` is aligned to 128 bytes, 1024 under the 128-byte swizzle.
// Coordinates are of the box's first element, the contiguous dimension first; what lies outside the
// tensor is zero. The barrier is told all bytes of the box, also of those outside.
#pragma once

#include "kernels/shared/tensor_map.h"

namespace attnlab::ptx {

__device__ inline void cp_async_bulk_tensor_4d(u32 to, const TensorMap& map, i32 c0, i32 c1, i32 c2,
                                               i32 c3, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(barrier)
      : "memory");
}

__device__ inline void cp_async_bulk_tensor_5d(u32 to, const TensorMap& map, i32 c0, i32 c1, i32 c2,
                                               i32 c3, i32 c4, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4), "r"(barrier)
      : "memory");
}

// Stores a box from shared memory to the tensor; what lies outside of it is left out. The thread
// waits for its groups of such stores.
__device__ inline void cp_async_bulk_tensor_4d_store(const TensorMap& map, i32 c0, i32 c1, i32 c2,
                                                     i32 c3, u32 from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(
          &map),
      "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(from)
      : "memory");
}

// Copies neighbouring bytes without a tensor map: a multiple of 16, aligned so on both sides.
__device__ inline void cp_async_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Adds neighbouring fp32 numbers in shared memory to those in global memory, each atomically:
// `bytes` of them, a multiple of 16, aligned so on both sides. It is part of the thread's groups of
// stores.
__device__ inline void cp_reduce_async_bulk_add_f32(float* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

__device__ inline void cp_async_bulk_commit_group() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but kPending of the thread's last groups have read what they store.
template <i32 kPending>
__device__ void cp_async_bulk_wait_group_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Waits likewise until they are stored.
template <i32 kPending>
__device__ void cp_async_bulk_wait_group() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace attnlab::ptx
