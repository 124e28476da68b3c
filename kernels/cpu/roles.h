// Runs warp roles on the CPU: producers and consumers as coroutines that one thread interleaves,
// the barriers and rings they meet at, and a scheduler that decides who goes next.
//
// A role reads from top to bottom like the code of a warp. Every co_await is a place where the
// hardware could let another warp run, so the scheduler may switch there, whether the wait would
// pass at once or not. A seed fixes all its choices: an interleaving is a number that can be run
// again. What a wrong protocol does on a GPU (a tile overwritten under a reader, old data read as
// new, a hang) is found here as what it is and thrown as a RoleFault.
#pragma once

#include <array>
#include <coroutine>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/shared/pipeline.h"

namespace attnlab::cpu {

// FaultKind says what went wrong between roles.
enum class FaultKind : u8 {
  overwrite,   // a stage is filled while somebody reads it, or before everybody has read it
  stale_read,  // a stage is read that does not hold the fill which the reader expects
  unread,      // all roles are done and a fill was never read, or never finished
  deadlock,    // not all roles are done and none can go on
};

struct RoleFault : std::runtime_error {
  RoleFault(FaultKind k, const std::string& sentence) : std::runtime_error(sentence), kind(k) {}
  FaultKind kind;
};

// Barrier is an mbarrier: a phase ends when all have arrived, and the next one begins.
class Barrier {
 public:
  Barrier() = default;
  explicit Barrier(i32 arrivals) : arrivals_(arrivals), pending_(arrivals) {}
  void arrive() {
    if (--pending_ > 0) return;
    pending_ = arrivals_;
    phase_ ^= 1;
  }
  bool passes(u32 parity) const { return phase_complete(phase_, parity); }

 private:
  i32 arrivals_ = 1;
  i32 pending_ = 1;
  u32 phase_ = 0;
};

// Wait says what a role waits for. Without a barrier it only lets others go first.
struct Wait {
  const Barrier* barrier = nullptr;
  u32 parity = 0;
  const char* place = "";  // name of the ring, or "order"
  const char* what = "";   // "full", "empty", "barrier"
  i32 stage = 0;
  bool passes() const { return barrier == nullptr || barrier->passes(parity); }
};

enum class Progress : u8 { progressed, blocked, done };

// Role is a coroutine that runs in steps, from one co_await to the next. It starts suspended.
// Exceptions leave through step().
class Role {
 public:
  struct promise_type {          // NOLINT(readability-identifier-naming): the language's name
    const Wait* wait = nullptr;  // of the co_await that suspended the role; null at the start
    Role get_return_object() { return Role(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { throw; }
  };
  using Handle = std::coroutine_handle<promise_type>;

  Role(Role&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Role(const Role&) = delete;
  Role& operator=(const Role&) = delete;
  ~Role() {
    if (handle_) handle_.destroy();
  }

  bool is_done() const { return handle_.done(); }
  bool may_go_on() const {
    const Wait* wait = handle_.promise().wait;
    return wait == nullptr || wait->passes();
  }
  // Returns what a role that may not go on waits for.
  const Wait& wait() const { return *handle_.promise().wait; }
  // Runs to the next co_await or to the end, unless the wait at hand does not pass yet.
  Progress step() {
    if (is_done()) return Progress::done;
    if (!may_go_on()) return Progress::blocked;
    handle_.resume();
    return Progress::progressed;
  }

 private:
  explicit Role(Handle handle) : handle_(handle) {}
  Handle handle_;
};

// Suspends the role until the wait passes; then `then()` is the value of the co_await.
template <class Then>
struct Suspension {
  Wait wait;
  Then then;
  bool await_ready() const noexcept { return false; }
  void await_suspend(Role::Handle role) const noexcept { role.promise().wait = &wait; }
  auto await_resume() { return then(); }
};
template <class Then>
Suspension(Wait, Then) -> Suspension<Then>;

// Lets others go first: where a GPU's role waits for work that is under way on its own account
// (wgmma.wait_group, a copy that lands later than it was issued). Here the work is done when it is
// issued; what such a wait leaves is the chance to be overtaken.
inline auto settle() {
  return Suspension{Wait{}, [] {}};
}

// Fault is one that a test plants: writer or reader 0 of the ring breaks the protocol.
enum class Fault : u8 {
  none,
  early_release,    // reader: arrives on empty when it begins to read fill `fill`, not when it ends
  double_release,   // reader: arrives on empty for another reader, too, after fill `fill`
  missing_arrive,   // writer: never says that fill `fill` is complete
  wrong_phase,      // reader: starts with the producer's parity
  one_stage_fewer,  // reader: goes round the ring one stage too early
};

// Probe tells what tests record and what they break. It is empty in a launch.
struct Probe {
  std::vector<i32>* trace = nullptr;  // gets the index of the role of each step
  std::string ring;                   // where the fault is
  Fault fault = Fault::none;
  i64 fill = 0;
};

// Ring is a ring of stages: full and empty barriers, and a record of who fills and reads which
// fill, against which every use is checked. It holds no tiles: like shared memory, they are arrays
// beside it, indexed by the stage. A fill may have several writers, each of which arrives; every
// reader reads every fill.
class Ring {
 public:
  static constexpr i32 kMaxStages = 8;
  struct Layout {
    const char* name;
    i32 stages = 2;
    i32 writers = 1;
    i32 readers = 1;
  };
  explicit Ring(const Layout& layout, const Probe& probe = {});
  // Throws unless all that was filled has been read.
  void expect_drained() const;

 private:
  friend class RingWriter;
  friend class RingReader;
  struct Stage {
    Barrier full;
    Barrier empty;
    i64 fill = -1;    // the number of the fill it holds; -1: none yet
    i32 written = 0;  // writers that are done with it
    i32 reading = 0;  // readers that hold it
    i32 read = 0;     // readers that are done with it
  };
  Stage& at(i32 stage) { return stages_[static_cast<std::size_t>(stage)]; }
  bool breaks(Fault fault, i32 who, i64 fill) const {
    return fault_ == fault && who == 0 && fill == fault_fill_;
  }
  [[noreturn]] void fail(FaultKind kind, i32 stage, const std::string& what) const;

  Layout layout_;
  std::array<Stage, kMaxStages> stages_;
  Fault fault_ = Fault::none;
  i64 fault_fill_ = 0;
};

// RingWriter is a role's place in a ring that it fills. It holds at most one stage at a time.
class RingWriter {
 public:
  explicit RingWriter(Ring& ring, i32 writer = 0) : ring_(ring), writer_(writer) {}
  // co_await waits until the stage has been read, and gives its number.
  auto empty() {
    return Suspension{Wait{.barrier = &ring_.at(state_.stage).empty,
                           .parity = state_.phase,
                           .place = ring_.layout_.name,
                           .what = "empty",
                           .stage = state_.stage},
                      [this] { return begin(); }};
  }
  // Says that the tile is written, and goes on to the next stage.
  void arrive_full();

 private:
  i32 begin();
  Ring& ring_;
  i32 writer_;
  i64 fill_ = 0;
  PipelineState state_ = producer_start();
};

// RingReader is a role's place in a ring that it reads. It holds at most one stage at a time.
class RingReader {
 public:
  explicit RingReader(Ring& ring, i32 reader = 0);
  // co_await waits until the stage is full, and gives its number.
  auto full() {
    return Suspension{Wait{.barrier = &ring_.at(state_.stage).full,
                           .parity = state_.phase,
                           .place = ring_.layout_.name,
                           .what = "full",
                           .stage = state_.stage},
                      [this] { return begin(); }};
  }
  // Says that the tile is read, and goes on to the next stage.
  void arrive_empty();

 private:
  i32 begin();
  Ring& ring_;
  i32 reader_;
  i32 stages_;
  i64 fill_ = 0;
  PipelineState state_ = consumer_start();
};

// OrderBarrier orders two consumers (named barriers on a GPU; CUTLASS's OrderedSequenceBarrier):
// one at a time is in the section between wait() and arrive(), consumer 0 first, then alternately.
class OrderBarrier {
 public:
  static constexpr i32 kConsumers = 2;
  OrderBarrier() { barriers_[0].arrive(); }
  auto wait(i32 consumer) {
    const auto c = static_cast<std::size_t>(consumer);
    return Suspension{Wait{.barrier = &barriers_[c],
                           .parity = phases_[c],
                           .place = "order",
                           .what = "barrier",
                           .stage = consumer},
                      [this, c] { phases_[c] ^= 1; }};
  }
  void arrive(i32 consumer) {
    barriers_[static_cast<std::size_t>(next_in_order(consumer, kConsumers))].arrive();
  }

 private:
  std::array<Barrier, kConsumers> barriers_;
  std::array<u32, kConsumers> phases_{};
};

struct NamedRole {
  const char* name;
  Role role;
};

// Choices are those of one work item's scheduler. Seed 0 takes round robin. Any other seed gives
// random numbers of its own to every item, so that what a worker did before has no influence.
struct Choices {
  u64 seed = 0;
  u64 item = 0;
};

// Runs the roles until all are done. Throws RoleFault: deadlock, with what every role waits for, or
// what a ring found.
void run_roles(std::span<NamedRole> roles, const Choices& choices, const Probe& probe = {});

}  // namespace attnlab::cpu
