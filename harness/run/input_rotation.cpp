#include "harness/run/input_rotation.h"

#include <algorithm>
#include <cstddef>

#include "harness/plan/accounting.h"
#include "harness/plan/protocol.h"

namespace attnlab {
namespace {

constexpr std::uint64_t kTimesTheCache = 3;  // a cache that is not quite LRU keeps some of twice
constexpr std::uint64_t kMostSets = 2048;

}  // namespace

InputRotation::InputRotation(const Problem& problem, const Inputs& inputs, Arena& arena,
                             const Device& device, const Protocol& protocol)
    : problem_(problem), arena_(arena), inputs_{inputs.tensors()} {
  for (int set = 1; set < count(problem, device, protocol); ++set) {
    inputs_.push_back(inputs.copy(arena, buffers_));
  }
}

int InputRotation::count(const Problem& problem, const Device& device, const Protocol& protocol) {
  if (protocol.cache == CacheState::hot) return 1;
  const std::uint64_t wanted = kTimesTheCache * device.l2_bytes / bytes_of_inputs(problem) + 1;
  return static_cast<int>(std::min(wanted, kMostSets));
}

void* InputRotation::copy(const void* data, const char* name, std::uint64_t bytes) {
  if (data == nullptr) return nullptr;
  std::vector<std::byte> contents(bytes);
  arena_.runtime().read(contents.data(), data, bytes);
  void* const copied = buffers_.allocate(arena_, name, "", bytes);
  arena_.runtime().write(copied, contents.data(), bytes);
  return copied;
}

std::vector<Tensors> InputRotation::sets_of(const Entrant& entrant) {
  std::vector<Tensors> sets;
  for (const Tensors& input : inputs_) {
    Tensors& set = sets.emplace_back(entrant.tensors);
    set.q = input.q;
    set.k = input.k;
    set.v = input.v;
    set.dout = input.dout;
    if (!entrant.forward || sets.size() == 1) continue;
    set.o = copy(set.o, "o", bytes_like_q(problem_));
    set.lse = static_cast<float*>(copy(set.lse, "lse", bytes_of_lse(problem_)));
    set.saved = copy(set.saved, "saved", kernel_saved_bytes(problem_, *entrant.competitor));
  }
  return sets;
}

}  // namespace attnlab
