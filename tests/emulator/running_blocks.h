// RunningBlocks knows which of a launch's running blocks can go on by themselves. So one may stop
// until the others are as far as they come without it, however slow this machine is.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

#include "kernels/shared/base.h"

namespace attnlab::emulator {

class RunningBlocks {
 public:
  // So many blocks run in all, and so many at once.
  RunningBlocks(u64 blocks, u64 at_once) : left_(blocks), at_once_(at_once) {}

  enum class Until { others_wait, another_ended };

  // Member is a block, from its begin to its end. Its functions may be called by its thread alone.
  class Member {
   public:
    explicit Member(RunningBlocks& all);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    // Says that the block has written a word that others wait for: they have to look again.
    void note_release();
    // Returns how often any block has.
    u64 releases() const;
    // Says that nothing in the block could go on, though all looked after so many releases.
    void note_idle(u64 releases);
    // Returns when every other block that runs or can begin waits or stops, too; another_ended: or
    // when one has ended. Returns anyway if that takes too long.
    void stop(Until until);

   private:
    friend class RunningBlocks;
    RunningBlocks& all_;
    bool is_stopped_ = false;
    std::optional<u64> waits_since_;  // releases; nothing: it has not waited yet
  };

 private:
  bool others_wait(const Member& own) const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<const Member*> members_;
  u64 left_;  // that have not begun
  u64 at_once_;
  u64 ended_ = 0;
  u64 releases_ = 0;
};

}  // namespace attnlab::emulator
