// Offers what the instructions of the emulated GPU (overlay/) ask of the machine that runs them.
// All functions are called by a thread of a kernel, which is a fiber of the emulator.
//
// Addresses in shared memory are the low 32 bits of the host's: a block's memory lies close enough
// together that they say which.
#pragma once

#include "kernels/shared/base.h"

namespace attnlab::emulator {

// Returns how many the device says it has: 4, or $ATTNLAB_EMULATOR_MULTIPROCESSORS.
u32 multiprocessors();

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
struct Place {
  Index thread, block, block_size, grid_size;
};
const Place& place();

// Ends the launch: the caller's fiber never comes back. It takes arguments like printf.
[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Takes a step that all threads of a group of neighbours take together. The last one to come does
// `work` with everybody's arguments, in the order of the threads, null for those that do not exist.
// Fails where threads of a group meet at steps of different names.
using Work = void (*)(void* const* arguments);
void together(int threads, const char* step, void* argument, Work work);

// Waits at one of the block's 16 barriers; 0 threads: all of the block.
void barrier_sync(int barrier, int threads);
void barrier_arrive(int barrier, int threads);
// Is a barrier of all threads of the block that tells them whether any came with true.
bool any_of_block(bool own);

// Lets other threads go on, until something has happened in this block (or, where the thread waits
// for memory that other blocks write, at any time). Called in loops that wait.
void wait_for_event(const char* what);
void wait_for_memory(const char* what);
// Draws whether an mbarrier.test_wait is to fail although the phase may be complete: kernels must
// be right either way.
bool looks_too_early();
// Says that something has happened which a thread may be waiting for.
void note_event();
// Called behind a release of a word that other blocks wait for. Stops the block, by lot, until the
// others wait for it.
void let_other_blocks_go_on();
// Called behind an atomicAdd on u32. A block's first call stops it, by lot, until another block has
// ended or the others wait for it: blocks with later tickets overtake it. Later calls do nothing.
void fall_behind();
u64 nanoseconds();

// Notes that the thread has waited for the launch in front, which has ended here long ago.
void wait_for_launch_in_front();
u8* dynamic_shared();
u32 to_shared(const void* address);
// Fails unless so many bytes there are the block's, and aligned to `alignment`. Touch says what the
// running thread does with them: nothing now, or what may race with others.
enum class Touch : u8 { nothing, reads, writes };
u8* from_shared(u32 address, u32 bytes, u32 alignment, Touch touch = Touch::nothing);

// Tells tests (trace.h) that the thread has added to a counter in memory of all blocks.
void note_count(const void* counter, u32 before);

// An asynchronous copy takes place at once or as late as it may, by the toss of a coin: between the
// two lie all places where hardware may do it.
struct Copy {
  u8* to = nullptr;
  const u8* from = nullptr;  // null: zeros
  u32 bytes = 0;
};
void start_copy(const Copy& copy);  // of cp.async
void commit_copies();
void wait_for_copies(int pending);

// These work on the 8 bytes of an mbarrier.
void mbarrier_init(u32 barrier, u32 arrivals);
void mbarrier_arrive(u32 barrier, u32 arrivals, u32 expected_bytes);
bool mbarrier_phase_is_over(u32 barrier, u32 parity);

// Starts a bulk tensor copy of up to five coordinates; the emulated driver made `map`.
void start_box(u32 to, const void* map, const i32* coordinates, int dimensions, u32 barrier);

// Starts the way back; it is waited for as copies are: by thread, in groups.
void start_store(const void* map, const i32* coordinates, int dimensions, u32 from);
// Start a bulk copy of neighbouring bytes of global memory without a map; and the addition of fp32
// numbers to those there, atomically, which is one of the thread's bulk stores.
void start_bulk_copy(u32 to, const void* from, u32 bytes, u32 barrier);
void start_bulk_addition(float* to, u32 from, u32 bytes);
void commit_stores();
void wait_for_stores(int pending);
void wait_for_stores_to_read(int pending);

enum class Factors : u8 { f16, bf16, e4m3 };

// WarpProduct is what a lane holds for mma.m16n8k16.
struct WarpProduct {
  float* d;
  const u32* a;
  u32 b0, b1;
};
void multiply_m16n8k16(Factors type, void* const* products);  // WarpProduct of 32 lanes

// WarpgroupProduct is what a thread holds for wgmma.m64nNk16, or of e4m3 m64nNk32. It takes place,
// like a copy, at once or as late as it may, and reads and writes where these point to then.
struct WarpgroupProduct {
  float* d;      // columns / 2 sums
  const u32* a;  // null: in shared memory
  u64 descriptor_a, descriptor_b;
  i32 columns;
  bool transposed_a, transposed_b, adds;
};
void start_product(Factors type, const WarpgroupProduct& own);
void commit_products();
void wait_for_products(int pending);

}  // namespace attnlab::emulator
