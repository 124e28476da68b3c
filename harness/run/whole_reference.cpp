#include "harness/run/whole_reference.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <new>
#include <random>

#include "harness/plan/accounting.h"
#include "reference/device_array.h"
#include "reference/mask.h"

namespace attnlab {
namespace {

// Returns what products reach of a chip with tensor cores for doubles, in FLOP/s: half of the data
// sheet's; 0 if the chip multiplies doubles at a small share of its rate.
double rate_of_doubles(const Device& device) {
  switch (device.compute_capability) {
    case 80: return 9.7e12;
    case 90: return 33e12;
    case 100: return 20e12;
    default: return 0.0;
  }
}

// Its kernels read and write this many bytes of matrices of scores for a pair of a row and a key.
constexpr double kForwardBytes = 100.0;
constexpr double kBackwardBytes = 250.0;
constexpr double kBytesPerSecond = 1.5e12;
// Such a pair takes this many products in double and in fp32, in units of head_dim.
constexpr double kForwardDoubles = 4.0, kForwardSingles = 10.0;
constexpr double kBackwardDoubles = 12.0, kBackwardSingles = 32.0;

}  // namespace

double seconds_of_group(const Problem& problem, std::int64_t batch, const Device& device) {
  const double rate = rate_of_doubles(device);
  if (rate == 0.0) return std::numeric_limits<double>::infinity();
  const std::int64_t sharing = problem.num_heads_q / problem.num_heads_kv;
  const double pairs = static_cast<double>(sharing) *
                       static_cast<double>(reference::rows_in_memory(problem, batch)) *
                       static_cast<double>(reference::keys_in_memory(problem, batch));
  const bool backward = problem.runs_backward();
  const double flops =
      (backward ? kBackwardDoubles + kBackwardSingles : kForwardDoubles + kForwardSingles) *
      static_cast<double>(problem.head_dim);
  const double bytes = backward ? kBackwardBytes : kForwardBytes;
  const double seconds = pairs * (flops / rate + bytes / kBytesPerSecond);
  // An e4m3 problem has references of its inputs before they were quantised, too.
  return problem.is_e4m3() ? 2.0 * seconds : seconds;
}

std::vector<reference::Group> choose_groups(const Problem& problem, const Device& device,
                                            std::uint64_t seed, double most_seconds) {
  std::vector<reference::Group> groups = reference::all_groups(problem);
  std::mt19937_64 random(seed);
  for (std::size_t i = groups.size(); i > 1; --i) std::swap(groups[i - 1], groups[random() % i]);
  double seconds = 0.0;
  std::size_t count = 0;
  for (const reference::Group& group : groups) {
    seconds += seconds_of_group(problem, group.batch, device);
    if (count > 0 && !(seconds <= most_seconds)) break;
    ++count;
  }
  groups.resize(count);
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return std::pair(a.batch, a.head_kv) < std::pair(b.batch, b.head_kv);
  });
  return groups;
}

WholeReference::WholeReference(const Problem& problem, const Tensors& inputs, const Device& device,
                               std::uint64_t seed, double most_seconds)
    : problem_(problem), inputs_(inputs), runtime_(&runtime_of(device)) {
  if (!std::isfinite(seconds_of_group(problem, 0, device))) {
    why_not_ = "the device multiplies doubles too slowly for references of its own";
    return;
  }
  groups_ = choose_groups(problem, device, seed, most_seconds);
  try {
    calculator_ = make_calculator(device, reference::device_reference_unit());
  } catch (const std::exception& error) {
    why_not_ = error.what();
  }
}

std::uint64_t WholeReference::bytes() const {
  return groups_.empty() ? 0 : reference::device_reference_bytes(problem_, groups_);
}

WholeReference::Key WholeReference::key_of(reference::Products products,
                                           JudgedDropout dropout) const {
  return {products, dropout == JudgedDropout::of_the_problem && problem_.dropout > 0.0};
}

bool WholeReference::make(reference::Products products, JudgedDropout dropout) {
  if (!why_not_.empty()) return false;
  const Key key = key_of(products, dropout);
  if (made_.contains(key)) return true;
  Problem problem = problem_;
  if (!key.second) problem.dropout = 0.0;
  try {
    made_.try_emplace(key, problem, inputs_, products, groups_, *runtime_, *calculator_);
  } catch (const std::bad_alloc&) {
    why_not_ = "memory of the device is short of references of its own";
    made_.clear();  // nobody is judged by them any more, and others need their room
  }
  return why_not_.empty();
}

std::vector<reference::Verdict> WholeReference::judge(const Problem& problem,
                                                      reference::Products products,
                                                      JudgedDropout dropout,
                                                      const Tensors& outputs) {
  std::vector<reference::Verdict> verdicts =
      made_.at(key_of(products, dropout)).judge(problem, outputs);
  for (reference::Verdict& verdict : verdicts) verdict.whole_heads = verdict.coverage < 1.0;
  return verdicts;
}

std::vector<reference::Verdict> WholeReference::judge_host(const Problem& problem,
                                                           reference::Products products,
                                                           JudgedDropout dropout,
                                                           const Tensors& host) {
  Tensors outputs;
  std::vector<reference::DeviceArray<std::byte>> copies;
  const auto send = [&](const void* data, std::uint64_t bytes) -> void* {
    if (data == nullptr) return nullptr;
    auto& copy = copies.emplace_back(*runtime_, static_cast<std::int64_t>(bytes));
    runtime_->write(copy.get(), data, bytes);
    return copy.get();
  };
  outputs.o = send(host.o, bytes_of_o(problem));
  outputs.lse = static_cast<float*>(send(host.lse, bytes_of_lse(problem)));
  outputs.dq = send(host.dq, bytes_like_q(problem));
  outputs.dk = send(host.dk, bytes_like_k(problem));
  outputs.dv = send(host.dv, bytes_like_k(problem));
  return judge(problem, products, dropout, outputs);
}

}  // namespace attnlab
