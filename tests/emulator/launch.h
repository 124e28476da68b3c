// Launch is a launch as the emulated driver hands it to the machine.
#pragma once

#include <string>

#include "kernels/shared/base.h"

namespace attnlab::emulator {

constexpr u64 kSharedBytes = 227 << 10;  // a block may have, as on sm_90

struct Launch {
  void (*entry)(void** parameters) = nullptr;  // what one thread runs
  void** parameters = nullptr;
  u64 blocks = 0;
  int threads = 0;
  u64 shared_bytes = 0;  // dynamic
  u64 seed = 0;          // of the order in which things happen
  // The kernel may start before the one in front has ended, so every thread must wait for that one.
  bool starts_early = false;
};

// Returns empty, or why it failed.
std::string run(const Launch& launch);

}  // namespace attnlab::emulator
