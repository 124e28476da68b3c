#include "tests/emulator/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/shared/convert.h"
#include "tests/emulator/launch.h"
#include "tests/emulator/tensor_box.h"

namespace attnlab::emulator {
namespace {

namespace context = boost::context;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStackBytes = 256 << 10;
constexpr u32 kAlignment = 1024;  // of dynamic shared memory
constexpr int kBarriers = 16;
constexpr int kLargestGroup = 128;
constexpr double kPatience = 20.0;  // seconds that a block waits for others

// Thrown through a kernel's frames where a launch has failed.
struct Failed {};

// A bulk copy from shared memory to a tensor.
struct Store {
  TensorBox box;
  const u8* from;
};

void make(const Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, copy.bytes);
  } else {
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}
void make(const Store& store) { store_box(store.box, store.from); }

// What has been started and not yet been done: groups, and what no group has yet.
template <class Work>
struct Late {
  std::vector<Work> open;
  std::vector<std::vector<Work>> groups;

  void commit() {
    groups.push_back(std::move(open));
    open.clear();
  }
  // Until at most `pending` groups are left.
  void wait(int pending) {
    while (static_cast<int>(groups.size()) > pending) {
      for (const Work& work : groups.front()) make(work);
      groups.erase(groups.begin());
    }
  }
};

struct Thread {
  enum class State : u8 { ready, blocked, waits_for_event, waits_for_memory, done };
  Place place;
  context::fiber fiber;
  State state = State::ready;
  u64 seen_events = 0;  // when it began to wait
  const char* waits_for = "";
  Late<Copy> copies;
  Late<Store> stores;
};

// A product of a warpgroup on its way: what each thread holds.
struct Product {
  Half type;
  std::array<WarpgroupProduct, 128> threads;
};
void make(const Product& product);

struct Group {  // of threads that take steps together
  Late<Product> products;
  int arrived = 0;
  const char* step = nullptr;
  std::array<void*, kLargestGroup> arguments{};
};

struct Barrier {
  int arrived = 0;
  int threads = 0;  // that it is for, this time
  std::vector<Thread*> waiting;
};

struct Box {  // a bulk copy under way
  TensorBox box;
  u8* to;
  u32 barrier;
};

// The state of an mbarrier as it lies in its 8 bytes.
struct MbarrierState {
  u32 arrivals;  // that a phase needs
  u32 pending;
  i32 bytes;
  u32 phase;  // parity of the one that is not over
};

MbarrierState unpacked(u64 bits) {
  return {.arrivals = static_cast<u32>(bits & 0xFFFFF),
          .pending = static_cast<u32>(bits >> 20 & 0xFFFFF),
          .bytes = static_cast<i32>(bits >> 40 & 0x3FFFFF) - (1 << 21),
          .phase = static_cast<u32>(bits >> 62 & 1)};
}

u64 packed(const MbarrierState& state) {
  return u64{state.arrivals} | u64{state.pending} << 20 |
         static_cast<u64>(state.bytes + (1 << 21)) << 40 | u64{state.phase} << 62 | u64{1} << 63;
}

class Block;
thread_local Block* running_block = nullptr;

// A block of threads that runs to its end on one thread of the host.
class Block {
 public:
  Block(const Launch& launch, u64 index, u8* shared, std::string& error)
      : launch_(launch), shared_(shared), error_(error) {
    std::seed_seq seeds{static_cast<u32>(launch.seed), static_cast<u32>(launch.seed >> 32),
                        static_cast<u32>(index)};
    random_.seed(seeds);
    threads_.resize(static_cast<std::size_t>(launch.threads));
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      threads_[i].place = {.thread = {static_cast<unsigned>(i)},
                           .block = {static_cast<unsigned>(index)},
                           .block_size = {static_cast<unsigned>(launch.threads), 1, 1},
                           .grid_size = {static_cast<unsigned>(launch.blocks), 1, 1}};
    }
    live_ = launch.threads;
    warps_.resize((threads_.size() + 31) / 32);
    warpgroups_.resize((threads_.size() + 127) / 128);
    std::memset(shared_, 0xFF, launch.shared_bytes);  // not a number in any type
  }

  void run() {
    running_block = this;
    for (Thread& thread : threads_) {
      thread.fiber = context::fiber(std::allocator_arg, stacks(), [&](context::fiber&& scheduler) {
        scheduler_ = std::move(scheduler);
        try {
          launch_.entry(launch_.parameters);
          thread.stores.commit();
          thread.stores.wait(0);  // a kernel ends when all has been stored
        } catch (const Failed&) {
        }
        thread.state = Thread::State::done;
        --live_;
        ++events_;
        return std::move(scheduler_);
      });
    }
    while (live_ > 0 && error_.empty()) step();
    threads_.clear();  // unwinds those that have not ended
    running_block = nullptr;
  }

  Thread& current() { return *current_; }
  int coin(int sides) { return static_cast<int>(random_() % static_cast<u32>(sides)); }
  u8* shared() { return shared_; }
  const Launch& launch() { return launch_; }
  int num_threads() const { return static_cast<int>(threads_.size()); }
  void note_event() { ++events_; }

  // Back to the scheduler, until the thread is ready again.
  void pause(Thread::State state, const char* what) {
    Thread& self = *current_;
    self.state = state;
    self.waits_for = what;
    self.seen_events = events_;
    scheduler_ = std::move(scheduler_).resume();
  }

  [[noreturn]] void fail(const std::string& words) {
    if (error_.empty()) error_ = words + where();
    throw Failed{};
  }

  void together(int size, const char* step, void* argument, Work work) {
    const int own = static_cast<int>(current_->place.thread.x);
    const int first = own / size * size;
    const int last = std::min(first + size, num_threads());
    Group& group = (size == 32 ? warps_ : warpgroups_)[static_cast<std::size_t>(own / size)];
    if (group.arrived > 0 && std::strcmp(group.step, step) != 0) {
      fail(std::string("at ") + step + " while others of its group are at " + group.step);
    }
    group.step = step;
    group.arguments[static_cast<std::size_t>(own - first)] = argument;
    int expected = 0;
    for (int i = first; i < last; ++i) expected += thread(i).state != Thread::State::done ? 1 : 0;
    if (++group.arrived < expected) {
      pause(Thread::State::blocked, step);
      return;
    }
    if (work != nullptr) work(group.arguments.data());
    group.arrived = 0;
    group.arguments.fill(nullptr);
    for (int i = first; i < last; ++i) {
      if (thread(i).state != Thread::State::done) thread(i).state = Thread::State::ready;
    }
  }

  void barrier(int number, int size, bool waits) {
    if (number < 0 || number >= kBarriers) fail("a barrier " + std::to_string(number));
    if (size % 32 != 0) fail("a barrier of " + std::to_string(size) + " threads");
    Barrier& barrier = barriers_[static_cast<std::size_t>(number)];
    const int expected = size != 0 ? size : live_;
    if (barrier.arrived > 0 && size != 0 && barrier.threads != expected) {
      fail("at barrier " + std::to_string(number) + " for " + std::to_string(expected) +
           " threads, others for " + std::to_string(barrier.threads));
    }
    barrier.threads = expected;
    ++barrier.arrived;
    ++events_;
    if (barrier.arrived < barrier.threads) {
      if (!waits) return;
      barrier.waiting.push_back(current_);
      pause(Thread::State::blocked, number == 0 ? "__syncthreads" : "a named barrier");
      return;
    }
    for (Thread* waiting : barrier.waiting) waiting->state = Thread::State::ready;
    barrier.waiting.clear();
    barrier.arrived = 0;
  }

  // The products of the warpgroup of the thread that runs.
  Late<Product>& products() {
    return warpgroups_[static_cast<std::size_t>(current_->place.thread.x / 128)].products;
  }

  void add_box(const Box& box) {
    if (coin(2) == 0) {
      deliver(box);
    } else {
      boxes_.push_back(box);
    }
  }

  void change_mbarrier(u32 address, u32 arrivals, i32 expected, i32 arrived_bytes) {
    u8* const at = from_shared(address, 8, 8);
    u64 bits = 0;
    std::memcpy(&bits, at, 8);
    MbarrierState state = unpacked(bits);
    if (bits >> 63 == 0 || state.arrivals == 0) fail("an mbarrier that nobody has made");
    if (arrivals > state.pending) fail("more arrivals at an mbarrier than it was made for");
    state.pending -= arrivals;
    state.bytes += expected - arrived_bytes;
    if (state.pending == 0 && state.bytes == 0) {
      state.pending = state.arrivals;
      state.phase ^= 1;
      ++events_;
    }
    bits = packed(state);
    std::memcpy(at, &bits, 8);
  }

  u8* from_shared(u32 address, u32 bytes, u32 alignment) {
    u8* const at =
        shared_ + static_cast<i32>(address - static_cast<u32>(reinterpret_cast<u64>(shared_)));
    if (address % alignment != 0) {
      fail("an address in shared memory that is not aligned to " + std::to_string(alignment));
    }
    const bool is_dynamic = at >= shared_ && at + bytes <= shared_ + launch_.shared_bytes;
    const bool is_beside = at + bytes <= shared_ || at >= shared_ + kSharedBytes;  // __shared__
    if (!is_dynamic && !is_beside) {
      fail("reaches over the end of its " + std::to_string(launch_.shared_bytes) +
           " bytes of shared memory");
    }
    return at;
  }

 private:
  static context::pooled_fixedsize_stack& stacks() {
    static thread_local context::pooled_fixedsize_stack pool(kStackBytes);
    return pool;
  }
  Thread& thread(int i) { return threads_[static_cast<std::size_t>(i)]; }

  std::string where() const {
    if (current_ == nullptr) return "";
    return " (block " + std::to_string(current_->place.block.x) + ", thread " +
           std::to_string(current_->place.thread.x) + ")";
  }

  bool is_ready(const Thread& thread) const {
    using State = Thread::State;
    return thread.state == State::ready ||
           (thread.state == State::waits_for_event && thread.seen_events != events_);
  }

  void resume(Thread& thread) {
    current_ = &thread;
    thread.state = Thread::State::ready;
    thread.fiber = std::move(thread.fiber).resume();
  }

  void deliver(const Box& box) {
    copy_box(box.box, box.to);
    ++events_;
    change_mbarrier(box.barrier, 0, 0, static_cast<i32>(box.box.bytes));
  }

  void deliver_one() {
    const auto which = boxes_.begin() + coin(static_cast<int>(boxes_.size()));
    const Box box = *which;
    boxes_.erase(which);
    deliver(box);
  }

  // One warp, drawn by lot, goes on until it can no more, or for a while.
  void step() {
    if (!boxes_.empty() && coin(8) == 0) deliver_one();
    const int warps = static_cast<int>(warps_.size());
    const int first = coin(warps);
    for (int i = 0; i < warps; ++i) {
      if (run_warp((first + i) % warps)) return;
    }
    if (!boxes_.empty()) {
      deliver_one();
    } else {
      wait_for_other_blocks();
    }
  }

  bool run_warp(int warp) {
    const int begin = warp * 32, end = std::min(begin + 32, num_threads());
    const int turns = coin(4) == 0 ? 1 + coin(50) : 1 << 30;
    bool ran = false;
    for (int turn = 0; turn < turns; ++turn) {
      bool any = false;
      for (int i = begin; i < end && error_.empty(); ++i) {
        if (!is_ready(thread(i))) continue;
        resume(thread(i));
        any = true;
      }
      if (!any) break;
      ran = true;
    }
    return ran;
  }

  // Nobody here can go on. Where a thread waits for memory, another block may help.
  void wait_for_other_blocks() {
    const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
      return thread.state == Thread::State::waits_for_memory;
    });
    if (idle_since_ == Clock::time_point{} || events_ != idle_events_) {
      idle_since_ = Clock::now();
      idle_events_ = events_;
    }
    const std::chrono::duration<double> idle = Clock::now() - idle_since_;
    if (waiting == threads_.end() || idle.count() > kPatience) {
      error_ = "deadlock: " + all_waits();
      return;
    }
    std::this_thread::yield();
    for (Thread& thread : threads_) {
      if (thread.state == Thread::State::waits_for_memory) thread.state = Thread::State::ready;
    }
  }

  std::string all_waits() const {
    std::string text;
    for (std::size_t i = 0; i < threads_.size(); i += 32) {
      const Thread& thread = threads_[i];
      const bool is_done = thread.state == Thread::State::done;
      text += (i == 0 ? "warp " : ", warp ") + std::to_string(i / 32) + " " +
              (is_done ? "has ended" : std::string("waits at ") + thread.waits_for);
    }
    return text;
  }

  const Launch& launch_;
  u8* shared_;
  std::string& error_;
  std::mt19937 random_;
  std::vector<Thread> threads_;
  std::vector<Group> warps_, warpgroups_;
  std::array<Barrier, kBarriers> barriers_;
  std::vector<Box> boxes_;
  context::fiber scheduler_;
  Thread* current_ = nullptr;
  int live_ = 0;
  u64 events_ = 0;
  u64 idle_events_ = 0;
  Clock::time_point idle_since_{};
};

Block& block() { return *running_block; }

// The low 16 bits.
float value_of(Half type, u32 bits) {
  static const std::vector<float> f16 = [] {
    std::vector<float> values(1 << 16);
    for (u32 i = 0; i < values.size(); ++i) values[i] = f32_from_f16(static_cast<u16>(i));
    return values;
  }();
  return type == Half::f16 ? f16[bits & 0xFFFF] : f32_from_bf16(static_cast<u16>(bits));
}

// The shared memory of the blocks that a thread of the host runs, one after another.
class SharedMemory {
 public:
  SharedMemory()
      : bytes_(static_cast<u8*>(mmap(nullptr, kSharedBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~SharedMemory() { munmap(bytes_, kSharedBytes); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  u8* get() const { return bytes_; }

 private:
  u8* bytes_;
};

}  // namespace

std::string run(const Launch& launch) {
  std::atomic<u64> next = 0;
  std::mutex mutex;
  std::string error;
  const auto work = [&] {
    const SharedMemory shared;
    for (u64 index = next++; index < launch.blocks; index = next++) {
      std::string own_error;
      Block(launch, index, shared.get(), own_error).run();
      if (own_error.empty()) continue;
      const std::lock_guard lock(mutex);
      if (error.empty()) error = own_error;
      next = launch.blocks;
    }
  };
  const u64 workers =
      std::min<u64>(launch.blocks, std::max(1u, std::thread::hardware_concurrency()));
  // Never on the caller's own thread, whose thread-local __shared__ variables lie far from all
  // else.
  std::vector<std::thread> threads;
  for (u64 i = 0; i < workers; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return error;
}

const Place& place() { return block().current().place; }

void fail(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  block().fail(text);
}

void together(int threads, const char* step, void* argument, Work work) {
  block().together(threads, step, argument, work);
}

void barrier_sync(int barrier, int threads) { block().barrier(barrier, threads, true); }
void barrier_arrive(int barrier, int threads) { block().barrier(barrier, threads, false); }

void wait_for_event(const char* what) { block().pause(Thread::State::waits_for_event, what); }
void wait_for_memory(const char* what) { block().pause(Thread::State::waits_for_memory, what); }
void note_event() { block().note_event(); }

u64 nanoseconds() {
  return static_cast<u64>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
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

u8* from_shared(u32 address, u32 bytes, u32 alignment) {
  return block().from_shared(address, bytes, alignment);
}

namespace {

// At once, or later, by the toss of a coin.
template <class Work>
void start(Late<Work>& late, const Work& work) {
  if (block().coin(2) == 0) {
    make(work);
  } else {
    late.open.push_back(work);
  }
}

}  // namespace

void start_copy(const Copy& copy) { start(block().current().copies, copy); }
void commit_copies() { block().current().copies.commit(); }
void wait_for_copies(int pending) { block().current().copies.wait(pending); }

void mbarrier_init(u32 barrier, u32 arrivals) {
  const u64 bits = packed({.arrivals = arrivals, .pending = arrivals, .bytes = 0, .phase = 0});
  std::memcpy(from_shared(barrier, 8, 8), &bits, 8);
}

void mbarrier_arrive(u32 barrier, u32 arrivals, u32 expected_bytes) {
  block().change_mbarrier(barrier, arrivals, static_cast<i32>(expected_bytes), 0);
}

bool mbarrier_phase_is_over(u32 barrier, u32 parity) {
  u64 bits = 0;
  std::memcpy(&bits, from_shared(barrier, 8, 8), 8);
  if (bits >> 63 == 0) fail("waits for an mbarrier that nobody has made");
  return unpacked(bits).phase != parity;
}

void start_box(u32 to, const void* map, const i32* coordinates, int dimensions, u32 barrier) {
  const TensorBox box = box_of(map, coordinates, dimensions);
  if (!box.error.empty()) fail("%s", box.error.c_str());
  block().add_box({box, from_shared(to, box.bytes, 128), barrier});
}

void start_store(const void* map, const i32* coordinates, int dimensions, u32 from) {
  const TensorBox box = box_of(map, coordinates, dimensions);
  if (!box.error.empty()) fail("%s", box.error.c_str());
  start(block().current().stores, Store{box, from_shared(from, box.bytes, 128)});
}
void start_product(Half type, const WarpgroupProduct& own) {
  struct Argument {
    Half type;
    WarpgroupProduct own;
  } argument = {type, own};
  block().together(128, "wgmma", &argument, [](void* const* arguments) {
    Product product;
    for (std::size_t i = 0; i < 128; ++i) {
      if (arguments[i] == nullptr) fail("wgmma of a warpgroup that has not all its threads");
      product.threads[i] = static_cast<const Argument*>(arguments[i])->own;
    }
    product.type = static_cast<const Argument*>(arguments[0])->type;
    Late<Product>& late = block().products();
    late.open.push_back(product);
    if (block().coin(2) == 0) {  // products take place in their order
      late.wait(0);
      for (const Product& earlier : late.open) make(earlier);
      late.open.clear();
    }
  });
}
void commit_products() {
  block().together(128, "wgmma.commit_group", nullptr,
                   [](void* const*) { block().products().commit(); });
}
void wait_for_products(int pending) {
  block().together(128, "wgmma.wait_group", &pending, [](void* const* arguments) {
    block().products().wait(*static_cast<const int*>(arguments[0]));
  });
}

void commit_stores() { block().current().stores.commit(); }
void wait_for_stores(int pending) { block().current().stores.wait(pending); }

void multiply_m16n8k16(Half type, void* const* products) {
  const auto decode = [type](u32 bits) { return value_of(type, bits); };
  float a[16][16], b[16][8], d[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const WarpProduct*>(products[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, column = 2 * t + i / 2 * 8;
      a[row][column] = decode(own.a[i]);
      a[row][column + 1] = decode(own.a[i] >> 16);
      d[g + i / 2 * 8][2 * t + i % 2] = own.d[i];
    }
    b[2 * t][g] = decode(own.b0);
    b[2 * t + 1][g] = decode(own.b0 >> 16);
    b[2 * t + 8][g] = decode(own.b1);
    b[2 * t + 9][g] = decode(own.b1 >> 16);
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    float* const own = static_cast<const WarpProduct*>(products[lane])->d;
    for (int i = 0; i < 4; ++i) own[i] = d[lane / 4 + i / 2 * 8][2 * (lane % 4) + i % 2];
  }
}

namespace {

// Where descriptors of wgmma say that 16-bit elements lie, under the swizzle of 128 bytes. Source:
// PTX ISA, matrix descriptor and the canonical layouts of wgmma.
class Factor {
 public:
  explicit Factor(u64 descriptor)
      : start_(static_cast<u32>(descriptor & 0x3FFF) << 4),
        leading_(static_cast<u32>(descriptor >> 16 & 0x3FFF) << 4),
        stride_(static_cast<u32>(descriptor >> 32 & 0x3FFF) << 4) {
    if (descriptor >> 62 != 1) fail("a descriptor with another swizzle than that of 128 bytes");
    if ((descriptor >> 49 & 7) != 0) fail("a descriptor with a base offset");
    // Of the address it has 18 bits, which are enough for a block's shared memory.
    const auto base = static_cast<u32>(reinterpret_cast<u64>(dynamic_shared()));
    start_ = base + ((start_ - base) & 0x3FFFF);
  }

  // Along the sum one behind the other: row of the left factor, column of the right one.
  u32 k_major(int row, int k) const {
    return at(static_cast<u32>(row / 8) * stride_ + static_cast<u32>(row % 8 * 128 + k * 2));
  }
  u32 mn_major(int column, int k) const {
    return at(static_cast<u32>(column / 64) * leading_ + static_cast<u32>(k / 8) * stride_ +
              static_cast<u32>(k % 8 * 128 + column % 64 * 2));
  }

 private:
  u32 at(u32 offset) const {
    const u32 address = start_ + offset;
    const u32 place = address ^ (address >> 7 & 7) << 4;
    return u32{*reinterpret_cast<const u16*>(from_shared(place, 2, 2))};
  }

  u32 start_, leading_, stride_;
};

void make(const Product& product) {
  const WarpgroupProduct& first = product.threads[0];
  const auto columns = static_cast<std::size_t>(first.columns);
  const Factor right(first.descriptor_b);
  std::vector<float> b(16 * columns);
  for (int k = 0; k < 16; ++k) {
    for (int n = 0; n < first.columns; ++n) {
      const u32 bits = first.transposed_b ? right.mn_major(n, k) : right.k_major(n, k);
      b[static_cast<std::size_t>(k) * columns + static_cast<std::size_t>(n)] =
          value_of(product.type, bits);
    }
  }
  for (int row = 0; row < 64; ++row) {
    const int first_thread = row / 16 * 32 + row % 8 * 4;  // of the four that hold the row
    const int half = row / 8 % 2;
    float a[16];
    for (int k = 0; k < 16; ++k) {
      u32 bits = 0;
      if (first.a == nullptr) {
        bits = Factor(first.descriptor_a).k_major(row, k);
      } else {
        const auto thread = static_cast<std::size_t>(first_thread + k % 8 / 2);
        bits = product.threads[thread].a[half + k / 8 * 2] >> (k % 2 * 16);
      }
      a[k] = value_of(product.type, bits);
    }
    std::vector<float> d(columns);
    const auto place = [&](int n) -> float& {
      const auto thread = static_cast<std::size_t>(first_thread + n % 8 / 2);
      return product.threads[thread].d[n / 8 * 4 + half * 2 + n % 2];
    };
    if (first.adds) {
      for (int n = 0; n < first.columns; ++n) d[static_cast<std::size_t>(n)] = place(n);
    }
    for (int k = 0; k < 16; ++k) {
      for (std::size_t n = 0; n < columns; ++n) {
        d[n] += a[k] * b[static_cast<std::size_t>(k) * columns + n];
      }
    }
    for (int n = 0; n < first.columns; ++n) place(n) = d[static_cast<std::size_t>(n)];
  }
}

}  // namespace

}  // namespace attnlab::emulator
