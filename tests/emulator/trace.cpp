#include "tests/emulator/trace.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace attnlab::emulator {
namespace {

std::atomic<bool> is_traced = false;
std::mutex mutex;
std::vector<Event> all;

}  // namespace

void trace(const Event& event) {
  if (!is_traced) return;
  const std::lock_guard lock(mutex);
  all.push_back(event);
}

}  // namespace attnlab::emulator

extern "C" void attnlab_emulator_begin_trace() {
  using namespace attnlab::emulator;
  all.clear();
  is_traced = true;
}

extern "C" const attnlab::emulator::Event* attnlab_emulator_end_trace(attnlab::u64* events) {
  using namespace attnlab::emulator;
  is_traced = false;
  *events = all.size();
  return all.data();
}
