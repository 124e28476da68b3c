#include "tests/emulator/running_blocks.h"

#include <algorithm>
#include <chrono>

namespace attnlab::emulator {
namespace {

// It ends a stop where another block computes for long and needs nothing of the one that stops.
constexpr std::chrono::milliseconds kLongestStop(500);

}  // namespace

RunningBlocks::Member::Member(RunningBlocks& all) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  all_.members_.insert(this);
  --all_.left_;
}

RunningBlocks::Member::~Member() {
  const std::lock_guard lock(all_.mutex_);
  all_.members_.erase(this);
  ++all_.ended_;
  all_.changed_.notify_all();
}

void RunningBlocks::Member::note_release() {
  const std::lock_guard lock(all_.mutex_);
  ++all_.releases_;
}

u64 RunningBlocks::Member::releases() const {
  const std::lock_guard lock(all_.mutex_);
  return all_.releases_;
}

void RunningBlocks::Member::note_idle(u64 releases) {
  const std::lock_guard lock(all_.mutex_);
  if (waits_since_ == releases) return;
  waits_since_ = releases;
  all_.changed_.notify_all();
}

void RunningBlocks::Member::stop(Until until) {
  std::unique_lock lock(all_.mutex_);
  const u64 ended = all_.ended_;
  is_stopped_ = true;
  all_.changed_.notify_all();
  all_.changed_.wait_for(lock, kLongestStop, [&] {
    return (until == Until::another_ended && all_.ended_ != ended) || all_.others_wait(*this);
  });
  is_stopped_ = false;
}

bool RunningBlocks::others_wait(const Member& own) const {
  if (left_ > 0 && members_.size() < at_once_) return false;  // one is about to begin
  return std::ranges::all_of(members_, [&](const Member* member) {
    return member == &own || member->is_stopped_ || member->waits_since_ == releases_;
  });
}

}  // namespace attnlab::emulator
