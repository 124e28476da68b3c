// Finds races in a block's shared memory by what is ordered and not by what goes wrong: two
// accesses of which one writes, by different warps or by what they have started, and no barrier
// between them that both know of. Source: vector clocks as in FastTrack (Flanagan and Freund,
// 2009), with warps in place of threads; what lanes of a warp do to each other is not looked at.
#pragma once

#include <string>
#include <vector>

#include "kernels/shared/base.h"

namespace attnlab::emulator {

// VectorClock is what an agent knows of each: up to which step all is over; empty if of none.
using VectorClock = std::vector<u32>;

enum class Access : u8 { read, write };

class Races {
 public:
  // `shared` has this many bytes, which are watched.
  Races(const u8* shared, u64 bytes, int warps);

  // Engine names agents beside the warps, which count from 0: what they start, what runs by itself.
  enum class Engine : u8 { copies, stores, products, boxes };
  // Returns the agent of a warp, its warpgroup, or a barrier that the boxes tell of their end.
  int agent(Engine engine, int of) const;

  // Notes an access by a warp itself. Says what it races with, or nothing.
  std::string access(int warp, const u8* at, u64 bytes, Access kind) {
    return access(warp, of_warp(warp), at, bytes, kind);
  }
  // Notes an access of what `agent` does with the clock that it was started with.
  std::string access(int agent, const VectorClock& clock, const u8* at, u64 bytes, Access kind);

  // A warp starts something that `agent` does, with this clock: it knows what the warp knows.
  VectorClock start(int warp, int agent);
  // A warp learns what is in a clock: of what it has waited for.
  void know(int warp, const VectorClock& clock) { join(of_warp(warp), clock); }

  // Adds what a warp that arrives at a barrier knows to what those before it know together.
  void tell(int warp, VectorClock& barrier) {
    join(barrier, of_warp(warp));
    ++of_warp(warp)[static_cast<std::size_t>(warp)];
  }
  static void join(VectorClock& clock, const VectorClock& other);

 private:
  // Word is a word's record. It is cleared when a block first touches it: most blocks touch few.
  struct Word {
    u64 block = 0;
    i32 writer = -1;  // agent
    u32 write = 0;    // its step
  };
  // Shadow is what blocks leave for those after them on the same thread of the host.
  struct Shadow {
    u64 blocks = 0;
    std::vector<Word> words;
    std::vector<u32> reads;  // of each word: the last step of every agent
  };

  static Shadow& shadow();
  Word& word_at(u64 index);
  VectorClock& of_warp(int warp) { return clocks_[static_cast<std::size_t>(warp)]; }
  std::string name(int agent) const;

  const u8* shared_;
  u64 bytes_;
  int warps_;
  std::size_t agents_;
  Shadow& shadow_;
  std::vector<VectorClock> clocks_;  // of warps
  std::vector<u32> steps_;           // of all agents
};

}  // namespace attnlab::emulator
