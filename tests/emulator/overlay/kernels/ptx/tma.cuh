// Emulated: see kernels/ptx/tma.cuh.
#pragma once

#include "kernels/shared/tensor_map.h"
#include "tests/emulator/machine.h"

namespace attnlab::ptx {

inline void cp_async_bulk_tensor_4d(u32 to, const TensorMap& map, i32 c0, i32 c1, i32 c2, i32 c3,
                                    u32 barrier) {
  const i32 first[] = {c0, c1, c2, c3};
  emulator::start_box(to, &map, first, 4, barrier);
}

inline void cp_async_bulk_tensor_5d(u32 to, const TensorMap& map, i32 c0, i32 c1, i32 c2, i32 c3,
                                    i32 c4, u32 barrier) {
  const i32 first[] = {c0, c1, c2, c3, c4};
  emulator::start_box(to, &map, first, 5, barrier);
}

inline void cp_async_bulk_tensor_4d_store(const TensorMap& map, i32 c0, i32 c1, i32 c2, i32 c3,
                                          u32 from) {
  const i32 first[] = {c0, c1, c2, c3};
  emulator::start_store(&map, first, 4, from);
}

inline void cp_async_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
  emulator::start_bulk_copy(to, from, bytes, barrier);
}

inline void cp_reduce_async_bulk_add_f32(float* to, u32 from, u32 bytes) {
  emulator::start_bulk_addition(to, from, bytes);
}

inline void cp_async_bulk_commit_group() { emulator::commit_stores(); }

template <i32 kPending>
void cp_async_bulk_wait_group_read() {
  emulator::wait_for_stores_to_read(kPending);
}

template <i32 kPending>
void cp_async_bulk_wait_group() {
  emulator::wait_for_stores(kPending);
}

}  // namespace attnlab::ptx
