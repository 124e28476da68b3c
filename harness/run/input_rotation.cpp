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

void InputRotation::add(const Problem& problem, const Inputs& inputs) {
  std::vector<Tensors>& sets = inputs_[problem.layout];
  sets.push_back(inputs.tensors());
  for (int set = 1; set < count(problem, device_, protocol_); ++set) {
    sets.push_back(inputs.copy(arena_, buffers_));
  }
}

int InputRotation::count(const Problem& problem, const Device& device, const Protocol& protocol) {
  if (protocol.cache == CacheState::hot) return 1;
  const std::uint64_t wanted = kTimesTheCache * device.l2_bytes / bytes_read_of_inputs(problem) + 1;
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

const std::vector<Tensors>& InputRotation::sets_of(const CompetitorRun& run) {
  const auto made = sets_.find(&run);
  if (made != sets_.end()) return made->second;
  return sets_.emplace(&run, make_sets(run)).first->second;
}

std::vector<Tensors> InputRotation::make_sets(const CompetitorRun& run) {
  const Problem& problem = run.problem();
  std::vector<Tensors> sets;
  for (const Tensors& input : inputs_.at(problem.layout)) {
    Tensors& set = sets.emplace_back(run.tensors);
    set.q = input.q;
    set.k = input.k;
    set.v = input.v;
    set.dout = input.dout;
    set.e4m3 = input.e4m3;
    if (!run.forward || sets.size() == 1) continue;
    set.o = copy(set.o, "o", bytes_of_o(problem));
    set.lse = static_cast<float*>(copy(set.lse, "lse", bytes_of_lse(problem)));
    set.saved = copy(set.saved, "saved", kernel_saved_bytes(problem, *run.competitor));
  }
  return sets;
}

}  // namespace attnlab
