// Runs a block of threads of a launch: fibers that one thread of the host runs in an order drawn by
// lot, what they wait for, and what they have started that goes on beside them.
#pragma once

#include <array>
#include <boost/context/fiber.hpp>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulator/launch.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/races.h"
#include "tests/emulator/running_blocks.h"
#include "tests/emulator/tensor_box.h"

namespace attnlab::emulator {

constexpr int kBarriers = 16;
constexpr int kLargestGroup = 128;

// Store is a bulk copy from shared memory to a tensor, or an addition to neighbouring numbers.
struct Store {
  TensorBox box;
  float* sums = nullptr;  // null: a copy to the box
  const u8* from = nullptr;
  u32 bytes = 0;
  std::vector<u8> read = {};  // what an addition has read already, and not yet added
};

// Late is what has been started and not waited for: groups, and what no group has yet.
template <class Work>
struct Late {
  struct Started {
    std::vector<Work> undone;
    VectorClock clock;  // of all, also what is done
  };
  Started open;
  std::vector<Started> groups;

  void commit() {
    groups.push_back(std::move(open));
    open = {};
  }
};

struct Thread {
  enum class State : u8 { ready, blocked, waits_for_event, waits_for_memory, done };
  Place place;
  boost::context::fiber fiber;
  State state = State::ready;
  u64 seen_events = 0;      // when it began to wait
  u32 looks = 0;            // test_waits so far
  bool has_waited = false;  // for the launch in front
  const char* waits_for = "";
  Late<Copy> copies;
  Late<Store> stores;
};

// Product is a product of a warpgroup in flight: what each thread holds.
struct Product {
  Factors type;
  std::array<WarpgroupProduct, 128> threads;
};

struct Group {  // of threads that take steps together
  Late<Product> products;
  std::array<int, 4> waited{};  // by each warp of a warpgroup: for how many of products.groups
  int arrived = 0;
  const char* step = nullptr;
  std::array<void*, kLargestGroup> arguments{};
};

struct Barrier {
  VectorClock clock;  // of those who have arrived
  int arrived = 0;
  int threads = 0;  // that it is for, this time
  std::vector<Thread*> waiting;
};

struct Box {  // a bulk copy under way
  TensorBox box;
  const u8* from = nullptr;  // null: of the box
  u32 bytes = 0;
  u8* to = nullptr;
  u32 barrier = 0;
  int agent = 0;
  VectorClock clock = {};
};

// MbarrierClocks is what those know who arrived at an mbarrier now, and in its phases before.
struct MbarrierClocks {
  VectorClock open;
  std::array<VectorClock, 2> over;  // by parity
};

// This thread of the host runs a block.
class Block;
Block& block();

// Block is a block of threads that runs to its end on one thread of the host.
class Block {
 public:
  Block(const Launch& launch, u64 index, u8* shared, RunningBlocks::Member& among,
        std::string& error);

  void run();

  Thread& current() { return *current_; }
  u8* shared() { return shared_; }
  void note_event() { ++events_; }
  void let_other_blocks_go_on();
  void fall_behind();

  // The thread that runs asks for these: see machine.h.

  // Goes back to the scheduler, until the thread is ready again.
  void pause(Thread::State state, const char* what);

  [[noreturn]] void fail(const std::string& words);
  void together(int size, const char* step, void* argument, Work work);
  void barrier(int number, int size, bool waits);
  bool any(bool own);

  // Returns the warpgroup of the thread that runs, and its products.
  Group& warpgroup() { return warpgroups_[static_cast<std::size_t>(warp() / 4)]; }
  Late<Product>& products() { return warpgroup().products; }

  // Starts something that takes place at once or later, by the toss of a coin; a product is started
  // by the last thread of its warpgroup.
  void start(Late<Copy>& late, const Copy& copy);
  void start(Late<Store>& late, const Store& store);
  void start(const Product& product);
  void start(const TensorBox& box, u32 to, u32 barrier);
  void start(const u8* from, u32 bytes, u32 to, u32 barrier);

  // Waits until at most `pending` groups are left.
  template <class Work>
  void finish(Late<Work>& late, int pending) {
    while (static_cast<int>(late.groups.size()) > pending) {
      make_all(late.groups.front());
      races_.know(warp(), late.groups.front().clock);
      late.groups.erase(late.groups.begin());
    }
  }
  void finish_products(int pending);
  // Waits until all but `pending` groups have read what they store; additions may still be to come.
  void finish_reading(Late<Store>& late, int pending);

  // Notes an access of the thread that runs, by an instruction or by plain C++.
  void touch(const u8* at, u64 bytes, Access kind) {
    report(races_.access(warp(), at, bytes, kind));
  }
  // Notes an access of the product that is being made.
  void touch_by_product(const u8* at, u64 bytes);

  void arrive_at_mbarrier(u32 address, u32 arrivals, i32 expected);
  // Takes in a phase that is over, by parity: the thread knows what those who arrived did before.
  void know_phase(u32 address, u32 parity);

  u8* from_shared(u32 address, u32 bytes, u32 alignment, Touch touched = Touch::nothing);

  // Draws whether a test_wait fails. A warpgroup's threads draw alike: races.h orders its products
  // after what any of them saw.
  bool looks_too_early();

 private:
  int num_threads() const { return static_cast<int>(threads_.size()); }
  Thread& thread(int i) { return threads_[static_cast<std::size_t>(i)]; }
  int coin(int sides) { return static_cast<int>(random_() % static_cast<u32>(sides)); }
  static int warp_of(const Thread& thread) { return static_cast<int>(thread.place.thread.x / 32); }
  int warp() const { return warp_of(*current_); }

  // Keeps the first thing that is wrong; the launch ends at the next step.
  void report(const std::string& words) {
    if (!words.empty() && error_.empty()) error_ = words + where();
  }

  template <class Work>
  void start_soon(Late<Work>& late, const Work& work) {
    if (coin(2) == 0) {
      make(work, late.open.clock);
    } else {
      late.open.undone.push_back(work);
    }
  }
  template <class Started>
  void make_all(Started& started) {
    for (const auto& work : started.undone) make(work, started.clock);
    started.undone.clear();
  }
  void make(const Copy& copy, const VectorClock& clock);
  void make(const Store& store, const VectorClock& clock);
  void make(const Product& product, const VectorClock& clock);

  // Starts a box; `to` is aligned to `alignment`.
  void start_box(Box box, u32 to, u32 alignment);

  void change_mbarrier(u32 address, u32 arrivals, i32 expected, i32 arrived_bytes);

  std::string where() const;
  bool is_ready(const Thread& thread) const;
  void resume(Thread& thread);
  void deliver(const Box& box);
  void deliver_one();  // of those under way, drawn by lot

  // Lets one warp, drawn by lot, go on until it can no more, or for a while.
  void step();
  bool run_warp(int warp);  // whether any of its threads could go on

  // Waits: nobody here can go on. Where a thread waits for memory, another block may help.
  void wait_for_other_blocks();

  std::string all_waits() const;

  const Launch& launch_;
  u8* shared_;
  RunningBlocks::Member& among_;
  std::string& error_;
  std::mt19937 random_;
  std::vector<Thread> threads_;
  std::vector<Group> warps_, warpgroups_;
  std::array<Barrier, kBarriers> barriers_;
  std::vector<Box> boxes_;
  Races races_;
  std::map<u32, MbarrierClocks> mbarriers_;  // by address
  const VectorClock* product_clock_ = nullptr;
  boost::context::fiber scheduler_;
  Thread* current_ = nullptr;
  int live_ = 0;
  bool any_ = false;  // of the block's threads that have come to a vote
  bool may_fall_behind_ = true;
  u64 events_ = 0;
  u64 idle_events_ = 0;
  u64 looked_ = 0;  // how many releases there were when all could look at memory last
  std::chrono::steady_clock::time_point idle_since_{};
};

}  // namespace attnlab::emulator
