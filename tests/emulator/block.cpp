#include "tests/emulator/block.h"

#include <algorithm>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/emulator/accesses.h"
#include "tests/emulator/mbarrier_state.h"
#include "tests/emulator/tensor_cores.h"

namespace attnlab::emulator {
namespace {

namespace context = boost::context;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStackBytes = 256 << 10;
constexpr double kPatience = 20.0;  // seconds that a block waits for others

// Failed is thrown through a kernel's frames where a launch has failed.
struct Failed {};

thread_local Block* running_block = nullptr;

context::pooled_fixedsize_stack& stacks() {
  static thread_local context::pooled_fixedsize_stack pool(kStackBytes);
  return pool;
}

}  // namespace

Block& block() { return *running_block; }

Block::Block(const Launch& launch, u64 index, u8* shared, RunningBlocks::Member& among,
             std::string& error)
    : launch_(launch),
      shared_(shared),
      among_(among),
      error_(error),
      races_(shared, launch.shared_bytes, (launch.threads + 31) / 32) {
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

bool Block::looks_too_early() {
  Thread& thread = *current_;
  const u32 warpgroup = thread.place.thread.x / 128;
  std::seed_seq seeds{static_cast<u32>(launch_.seed), static_cast<u32>(launch_.seed >> 32),
                      thread.place.block.x, warpgroup, thread.looks++};
  u32 drawn = 0;
  seeds.generate(&drawn, &drawn + 1);
  return drawn % 4 == 0;
}

void Block::let_other_blocks_go_on() {
  among_.note_release();
  if (coin(4) == 0) among_.stop(RunningBlocks::Until::others_wait);
}

void Block::fall_behind() {
  if (std::exchange(may_fall_behind_, false) && coin(4) == 0) {
    among_.stop(RunningBlocks::Until::another_ended);
  }
}

void Block::run() {
  running_block = this;
  watch(shared_, launch_.shared_bytes);
  for (Thread& thread : threads_) {
    thread.fiber = context::fiber(std::allocator_arg, stacks(), [&](context::fiber&& scheduler) {
      scheduler_ = std::move(scheduler);
      try {
        launch_.entry(launch_.parameters);
        thread.stores.commit();
        finish(thread.stores, 0);  // a kernel ends when all has been stored
        if (launch_.starts_early && !thread.has_waited) {
          report("a thread has ended without griddepcontrol.wait in a kernel that starts early");
        }
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
  watch(nullptr, 0);
}

void Block::pause(Thread::State state, const char* what) {
  Thread& self = *current_;
  self.state = state;
  self.waits_for = what;
  self.seen_events = events_;
  scheduler_ = std::move(scheduler_).resume();
}

void Block::fail(const std::string& words) {
  if (error_.empty()) error_ = words + where();
  throw Failed{};
}

void Block::together(int size, const char* step, void* argument, Work work) {
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

void Block::barrier(int number, int size, bool waits) {
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
  races_.tell(warp(), barrier.clock);
  if (waits) barrier.waiting.push_back(current_);
  if (barrier.arrived < barrier.threads) {
    if (waits) pause(Thread::State::blocked, number == 0 ? "__syncthreads" : "a named barrier");
    return;
  }
  for (Thread* waiting : barrier.waiting) {
    waiting->state = Thread::State::ready;
    races_.know(warp_of(*waiting), barrier.clock);
  }
  barrier = {};
}

bool Block::any(bool own) {
  any_ = own || (any_ && barriers_[0].arrived > 0);
  barrier(0, 0, true);
  const bool result = any_;
  barrier(0, 0, true);  // the next question waits until all have read this answer
  return result;
}

void Block::start(Late<Copy>& late, const Copy& copy) {
  const int agent = races_.agent(Races::Engine::copies, warp());
  Races::join(late.open.clock, races_.start(warp(), agent));
  start_soon(late, copy);
}

void Block::start(Late<Store>& late, const Store& store) {
  const int agent = races_.agent(Races::Engine::stores, warp());
  Races::join(late.open.clock, races_.start(warp(), agent));
  start_soon(late, store);
}

void Block::start(const Product& product) {  // by the last thread of its warpgroup
  Late<Product>& late = products();
  const int agent = races_.agent(Races::Engine::products, warp() / 4);
  for (int other = warp() / 4 * 4; other < warp() / 4 * 4 + 4; ++other) {
    Races::join(late.open.clock, races_.start(other, agent));
  }
  late.open.undone.push_back(product);
  if (coin(2) != 0) return;
  for (auto& group : late.groups) make_all(group);  // products take place in their order
  make_all(late.open);
}

void Block::start(const TensorBox& box, u32 to, u32 barrier) {
  Box under_way;
  under_way.box = box;
  under_way.bytes = box.bytes;
  under_way.barrier = barrier;
  start_box(std::move(under_way), to, 128);
}

void Block::start(const u8* from, u32 bytes, u32 to, u32 barrier) {
  Box under_way;
  under_way.from = from;
  under_way.bytes = bytes;
  under_way.barrier = barrier;
  start_box(std::move(under_way), to, 16);
}

void Block::start_box(Box box, u32 to, u32 alignment) {
  box.to = from_shared(to, box.bytes, alignment, Touch::nothing);
  box.agent = races_.agent(Races::Engine::boxes, static_cast<int>(box.barrier / 8 % 8));
  box.clock = races_.start(warp(), box.agent);
  if (coin(2) == 0) {
    deliver(box);
  } else {
    boxes_.push_back(std::move(box));
  }
}

// A warp waits for itself: others of its warpgroup may be ahead or behind until the next product,
// which all start. A group is kept until each has waited for it.
void Block::finish_products(int pending) {
  auto& groups = products().groups;
  auto& waited = warpgroup().waited;
  const int over = std::max(0, static_cast<int>(groups.size()) - pending);
  for (int i = 0; i < over; ++i) {
    make_all(groups[static_cast<std::size_t>(i)]);
    races_.know(warp(), groups[static_cast<std::size_t>(i)].clock);
  }
  int& own = waited[static_cast<std::size_t>(warp() % 4)];
  own = std::max(own, over);
  const int by_all = *std::ranges::min_element(waited);
  groups.erase(groups.begin(), groups.begin() + by_all);
  for (int& count : waited) count -= by_all;
}

void Block::finish_reading(Late<Store>& late, int pending) {
  const int agent = races_.agent(Races::Engine::stores, warp());
  const auto newest = late.groups.end() - std::min(pending, static_cast<int>(late.groups.size()));
  for (auto group = late.groups.begin(); group != newest; ++group) {
    std::vector<Store> additions;
    for (Store& store : group->undone) {
      if (store.sums == nullptr) {
        make(store, group->clock);
        continue;
      }
      if (store.read.empty()) {
        report(races_.access(agent, group->clock, store.from, store.bytes, Access::read));
        store.read.assign(store.from, store.from + store.bytes);
      }
      additions.push_back(std::move(store));
    }
    group->undone = std::move(additions);
    races_.know(warp(), group->clock);
  }
  late.groups.erase(std::remove_if(late.groups.begin(), newest,
                                   [](const auto& group) { return group.undone.empty(); }),
                    newest);
}

void Block::touch_by_product(const u8* at, u64 bytes) {
  report(races_.access(races_.agent(Races::Engine::products, warp() / 4), *product_clock_, at,
                       bytes, Access::read));
}

void Block::change_mbarrier(u32 address, u32 arrivals, i32 expected, i32 arrived_bytes) {
  u8* const at = from_shared(address, 8, 8);
  u64 bits = 0;
  std::memcpy(&bits, at, 8);
  MbarrierState state = unpacked(bits);
  if (bits >> 63 == 0 || state.arrivals == 0) fail("an mbarrier that nobody has made");
  if (arrivals > state.pending) fail("more arrivals at an mbarrier than it was made for");
  state.pending -= arrivals;
  state.bytes += expected - arrived_bytes;
  if (state.pending == 0 && state.bytes == 0) {
    MbarrierClocks& clocks = mbarriers_[address];
    clocks.over[state.phase] = std::move(clocks.open);
    clocks.open.clear();
    state.pending = state.arrivals;
    state.phase ^= 1;
    ++events_;
  }
  bits = packed(state);
  std::memcpy(at, &bits, 8);
}

void Block::arrive_at_mbarrier(u32 address, u32 arrivals, i32 expected) {
  races_.tell(warp(), mbarriers_[address].open);
  change_mbarrier(address, arrivals, expected, 0);
}

void Block::know_phase(u32 address, u32 parity) {
  races_.know(warp(), mbarriers_[address].over[parity]);
}

u8* Block::from_shared(u32 address, u32 bytes, u32 alignment, Touch touched) {
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
  if (touched != Touch::nothing) {
    touch(at, bytes, touched == Touch::reads ? Access::read : Access::write);
  }
  return at;
}

void Block::make(const Copy& copy, const VectorClock& clock) {
  const int agent = races_.agent(Races::Engine::copies, warp());
  report(races_.access(agent, clock, copy.to, copy.bytes, Access::write));
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, copy.bytes);
  } else {
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

void Block::make(const Store& store, const VectorClock& clock) {
  if (!store.read.empty()) return add_line(store.sums, store.read.data(), store.bytes);
  const int agent = races_.agent(Races::Engine::stores, warp());
  report(races_.access(agent, clock, store.from, store.bytes, Access::read));
  if (store.sums == nullptr) {
    store_box(store.box, store.from);
  } else {
    add_line(store.sums, store.from, store.bytes);
  }
}

void Block::make(const Product& product, const VectorClock& clock) {
  product_clock_ = &clock;
  multiply(product);
}

std::string Block::where() const {
  if (current_ == nullptr) return "";
  return " (block " + std::to_string(current_->place.block.x) + ", thread " +
         std::to_string(current_->place.thread.x) + ")";
}

bool Block::is_ready(const Thread& thread) const {
  using State = Thread::State;
  return thread.state == State::ready ||
         (thread.state == State::waits_for_event && thread.seen_events != events_);
}

void Block::resume(Thread& thread) {
  current_ = &thread;
  thread.state = Thread::State::ready;
  thread.fiber = std::move(thread.fiber).resume();
}

void Block::deliver(const Box& box) {
  report(races_.access(box.agent, box.clock, box.to, box.bytes, Access::write));
  if (box.from == nullptr) {
    copy_box(box.box, box.to);
  } else {
    copy_line(box.from, box.to, box.bytes);
  }
  ++events_;
  Races::join(mbarriers_[box.barrier].open, box.clock);
  change_mbarrier(box.barrier, 0, 0, static_cast<i32>(box.bytes));
}

void Block::deliver_one() {
  const auto which = boxes_.begin() + coin(static_cast<int>(boxes_.size()));
  const Box box = *which;
  boxes_.erase(which);
  deliver(box);
}

void Block::step() {
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

bool Block::run_warp(int warp) {
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

void Block::wait_for_other_blocks() {
  const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return thread.state == Thread::State::waits_for_memory;
  });
  if (idle_since_ == Clock::time_point{} || events_ != idle_events_) {
    idle_since_ = Clock::now();
    idle_events_ = events_;
  } else {
    among_.note_idle(looked_);
  }
  looked_ = among_.releases();
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

std::string Block::all_waits() const {
  std::string text;
  for (std::size_t i = 0; i < threads_.size(); i += 32) {
    const Thread& thread = threads_[i];
    const bool is_done = thread.state == Thread::State::done;
    text += (i == 0 ? "warp " : ", warp ") + std::to_string(i / 32) + " " +
            (is_done ? "has ended" : std::string("waits at ") + thread.waits_for);
  }
  return text;
}

}  // namespace attnlab::emulator
