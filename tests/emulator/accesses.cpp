#include "tests/emulator/accesses.h"

#include "tests/emulator/block.h"

namespace attnlab::emulator {
namespace {

// They are asked at every access: they are found with one instruction, which costs a few bytes of
// those that the loader has for such libraries.
__attribute__((tls_model("initial-exec"))) thread_local u64 watched_begin = 0, watched_bytes = 0;

void touch(const void* at, u64 bytes, Access kind) {
  if (reinterpret_cast<u64>(at) - watched_begin >= watched_bytes) return;
  block().touch(static_cast<const u8*>(at), bytes, kind);
}

}  // namespace

void watch(const u8* begin, u64 bytes) {
  watched_begin = reinterpret_cast<u64>(begin);
  watched_bytes = bytes;
}

// The compiler gives them these names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
#define ATTNLAB_HOOKS(bytes)                                                      \
  void __tsan_read##bytes(void* at) { touch(at, bytes, Access::read); }           \
  void __tsan_write##bytes(void* at) { touch(at, bytes, Access::write); }         \
  void __tsan_unaligned_read##bytes(void* at) { touch(at, bytes, Access::read); } \
  void __tsan_unaligned_write##bytes(void* at) { touch(at, bytes, Access::write); }

extern "C" {
ATTNLAB_HOOKS(1)
ATTNLAB_HOOKS(2)
ATTNLAB_HOOKS(4)
ATTNLAB_HOOKS(8)
ATTNLAB_HOOKS(16)
void __tsan_read_range(void* at, unsigned long bytes) { touch(at, bytes, Access::read); }
void __tsan_write_range(void* at, unsigned long bytes) { touch(at, bytes, Access::write); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
int __tsan_atomic32_load(const volatile int* from, int) {
  return __atomic_load_n(from, __ATOMIC_SEQ_CST);
}
long __tsan_atomic64_load(const volatile long* from, int) {
  return __atomic_load_n(from, __ATOMIC_SEQ_CST);
}
void __tsan_atomic32_store(volatile int* to, int value, int) {
  __atomic_store_n(to, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_compare_exchange_strong(volatile int* at, int* expected, int wanted, int, int) {
  return __atomic_compare_exchange_n(at, expected, wanted, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}
int __tsan_atomic64_compare_exchange_strong(volatile long* at, long* expected, long wanted, int,
                                            int) {
  return __atomic_compare_exchange_n(at, expected, wanted, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST);
}
}  // extern "C"
#undef ATTNLAB_HOOKS
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

}  // namespace attnlab::emulator
