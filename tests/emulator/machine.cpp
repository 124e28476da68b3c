#include "tests/emulator/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/emulator/block.h"
#include "tests/emulator/mbarrier_state.h"
#include "tests/emulator/trace.h"

namespace attnlab::emulator {
namespace {

// Bulk copies without a tensor map take whole chunks of 16 bytes.
void expect_chunks(const void* global, u32 bytes) {
  if (reinterpret_cast<u64>(global) % 16 != 0 || bytes % 16 != 0 || bytes == 0) {
    fail("a bulk copy of %u bytes at %p: both must be multiples of 16", bytes, global);
  }
}

}  // namespace

const Place& place() { return block().current().place; }

void fail(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  block().fail(text);
}

u32 multiprocessors() {
  const char* const text = std::getenv("ATTNLAB_EMULATOR_MULTIPROCESSORS");
  return text == nullptr ? 4 : std::max(1u, static_cast<u32>(std::strtoul(text, nullptr, 10)));
}

void together(int threads, const char* step, void* argument, Work work) {
  block().together(threads, step, argument, work);
}

void barrier_sync(int barrier, int threads) { block().barrier(barrier, threads, true); }
void barrier_arrive(int barrier, int threads) { block().barrier(barrier, threads, false); }
bool any_of_block(bool own) { return block().any(own); }

void wait_for_event(const char* what) { block().pause(Thread::State::waits_for_event, what); }
void wait_for_memory(const char* what) { block().pause(Thread::State::waits_for_memory, what); }
bool looks_too_early() { return block().looks_too_early(); }
void note_event() { block().note_event(); }
void let_other_blocks_go_on() { block().let_other_blocks_go_on(); }
void fall_behind() { block().fall_behind(); }

u64 nanoseconds() {
  return static_cast<u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::steady_clock::now().time_since_epoch())
                              .count());
}

u8* dynamic_shared() { return block().shared(); }

u32 to_shared(const void* address) {
  const auto distance = static_cast<const u8*>(address) - block().shared();
  if (distance > 0x7FFFFFFF || distance < -0x7FFFFFFF) {
    fail("an address far from the block's shared memory");
  }
  return static_cast<u32>(reinterpret_cast<u64>(address));
}

u8* from_shared(u32 address, u32 bytes, u32 alignment, Touch touch) {
  return block().from_shared(address, bytes, alignment, touch);
}

void note_count(const void* counter, u32 before) {
  trace({.kind = Event::Kind::count,
         .block = place().block.x,
         .address = reinterpret_cast<u64>(counter),
         .count = before});
}

void start_copy(const Copy& copy) { block().start(block().current().copies, copy); }
void commit_copies() { block().current().copies.commit(); }
void wait_for_copies(int pending) { block().finish(block().current().copies, pending); }

void mbarrier_init(u32 barrier, u32 arrivals) {
  const u64 bits = packed({.arrivals = arrivals, .pending = arrivals, .bytes = 0, .phase = 0});
  std::memcpy(from_shared(barrier, 8, 8), &bits, 8);
}

void mbarrier_arrive(u32 barrier, u32 arrivals, u32 expected_bytes) {
  block().arrive_at_mbarrier(barrier, arrivals, static_cast<i32>(expected_bytes));
}

bool mbarrier_phase_is_over(u32 barrier, u32 parity) {
  u64 bits = 0;
  std::memcpy(&bits, from_shared(barrier, 8, 8), 8);
  if (bits >> 63 == 0) fail("waits for an mbarrier that nobody has made");
  const bool is_over = unpacked(bits).phase != parity;
  if (is_over) block().know_phase(barrier, parity);
  return is_over;
}

void start_box(u32 to, const void* map, const i32* coordinates, int dimensions, u32 barrier) {
  const TensorBox box = box_of(map, coordinates, dimensions);
  if (!box.error.empty()) fail("%s", box.error.c_str());
  trace({.kind = Event::Kind::copy, .block = place().block.x, .address = box.map.data, .count = 0});
  block().start(box, to, barrier);
}

void start_store(const void* map, const i32* coordinates, int dimensions, u32 from) {
  const TensorBox box = box_of(map, coordinates, dimensions);
  if (!box.error.empty()) fail("%s", box.error.c_str());
  Store store;
  store.box = box;
  store.from = from_shared(from, box.bytes, 128);
  store.bytes = box.bytes;
  block().start(block().current().stores, store);
}

void start_bulk_copy(u32 to, const void* from, u32 bytes, u32 barrier) {
  expect_chunks(from, bytes);
  block().start(static_cast<const u8*>(from), bytes, to, barrier);
}

void start_bulk_addition(float* to, u32 from, u32 bytes) {
  expect_chunks(to, bytes);
  Store store;
  store.sums = to;
  store.from = from_shared(from, bytes, 16);
  store.bytes = bytes;
  block().start(block().current().stores, store);
}
void wait_for_launch_in_front() { block().current().has_waited = true; }
void commit_stores() { block().current().stores.commit(); }
void wait_for_stores(int pending) { block().finish(block().current().stores, pending); }
void wait_for_stores_to_read(int pending) {
  block().finish_reading(block().current().stores, pending);
}

void start_product(Factors type, const WarpgroupProduct& own) {
  struct Argument {
    Factors type;
    WarpgroupProduct own;
  } argument = {type, own};
  block().together(128, "wgmma", &argument, [](void* const* arguments) {
    Product product;
    for (std::size_t i = 0; i < 128; ++i) {
      if (arguments[i] == nullptr) fail("wgmma of a warpgroup that has not all its threads");
      product.threads[i] = static_cast<const Argument*>(arguments[i])->own;
    }
    product.type = static_cast<const Argument*>(arguments[0])->type;
    block().start(product);
  });
}
void commit_products() {
  block().together(128, "wgmma.commit_group", nullptr,
                   [](void* const*) { block().products().commit(); });
}
void wait_for_products(int pending) {
  block().together(32, "wgmma.wait_group", &pending, [](void* const* arguments) {
    block().finish_products(*static_cast<const int*>(arguments[0]));
  });
}

}  // namespace attnlab::emulator
