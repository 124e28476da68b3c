#include "harness/run/observation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <string_view>

#include "harness/plan/accounting.h"
#include "harness/plan/model.h"
#include "harness/plan/protocol.h"
#include "harness/run/ending.h"
#include "harness/run/input_rotation.h"
#include "harness/run/tensor_flops.h"

namespace attnlab {
namespace {

// A counted range has this many launches: the bytes of one stand out, and they cost next to
// nothing. Cold ones are at most as many as there are sets of inputs, so that each reads its own.
constexpr double kCountedSeconds = 5e-3;
constexpr int kMostCountedLaunches = 20;

constexpr double kColdShare = 0.95;  // of the compulsory reads, that a cold launch takes from dram
constexpr double kHotShare = 0.05;   // and at most so much a hot one that fits the L2

// Returns how many registers a thread has in a launch of what uses so many: no fewer than 16, and a
// trace may say so (a kernel compiled for 10 ran with 16 on an H200).
int registers_of_launch(int used) { return std::max(used, 16); }

std::string shape_of(const ExecutedKernel& kernel) {
  return fmt::format("{} threads, {} registers, {} + {} bytes of shared memory",
                     kernel.block[0] * kernel.block[1] * kernel.block[2],
                     registers_of_launch(kernel.registers), kernel.static_shared_bytes.value_or(0),
                     kernel.dynamic_shared_bytes.value_or(0));
}

std::string shape_of(const CompiledEntry& compiled) {
  return fmt::format("{} threads, {} registers, {} + {} bytes of shared memory",
                     compiled.entry.threads, registers_of_launch(compiled.registers),
                     compiled.static_shared_bytes, compiled.entry.dynamic_shared_bytes);
}

// Returns the unit's entry of this name, null if it has none.
const CompiledEntry* find_entry(const Compilation& unit, std::string_view symbol) {
  const auto found = std::ranges::find_if(
      unit.entries, [&](const CompiledEntry& compiled) { return compiled.entry.name == symbol; });
  return found == unit.entries.end() ? nullptr : &*found;
}

// Returns what the pass itself launches: a backward's record has the units of its forward, too.
std::vector<Compilation> units_of_pass(const CompetitorRun& run, const Device& device) {
  std::vector<Compilation> found;
  const Implementation& kernel = run.kernel();
  if (kernel.units == nullptr) return found;
  const Problem& problem = run.record.point.problem;
  for (const KernelUnit& unit : kernel.units(problem, run.competitor->config, device)) {
    std::ranges::copy_if(run.record.compilations, std::back_inserter(found),
                         [&](const Compilation& compiled) { return compiled.unit == unit.name; });
  }
  return found;
}

void trace(CompetitorRun& run, const Observers& observers, const Device& device) {
  Evidence& evidence = run.record.evidence.emplace();
  if (observers.trace == nullptr) {
    evidence.reason = observers.why_no_trace;
    return;
  }
  try {
    evidence.executed = observers.trace->trace(run.launch_next);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    evidence.reason = error.what();
    return;
  }
  evidence.reason =
      contradiction(*evidence.executed, units_of_pass(run, device), run.kernel().library);
  evidence.as_asked = evidence.reason.empty();
  if (!*evidence.as_asked) {
    throw Ending{Status::invalid, "what ran is not what was asked for: " + evidence.reason};
  }
}

template <class Value>
void divide(std::optional<Value>& value, double by) {
  if (value) *value /= by;
}

// Divides counts of all launches by their number; rates stay.
HardwareCounts per_launch(HardwareCounts counts, int launches) {
  for (std::optional<double>* sum :
       {&counts.dram_read_bytes, &counts.dram_write_bytes, &counts.sm_read_bytes,
        &counts.l2_read_bytes, &counts.l2_write_bytes, &counts.tensor_active_cycles,
        &counts.active_cycles, &counts.elapsed_cycles, &counts.wgmma_flops, &counts.mma_sync_flops,
        &counts.atomic_bytes, &counts.reduction_bytes, &counts.shared_wavefronts,
        &counts.shared_load_conflicts, &counts.shared_store_conflicts}) {
    divide(*sum, launches);
  }
  return counts;
}

void count(CompetitorRun& run, const Observers& observers, const Device& device) {
  Counted& counted = run.record.counted.emplace();
  if (observers.counters == nullptr) {
    counted.reason = observers.why_no_counters;
    return;
  }
  const Protocol& protocol = run.record.protocol;
  const Problem& problem = run.record.point.problem;
  const bool is_cold = protocol.cache == CacheState::cold;
  const int sets = InputRotation::count(problem, device, protocol);
  const double seconds = run.record.time ? run.record.time->median_s : kCountedSeconds;
  const double wanted = std::ceil(kCountedSeconds / seconds);
  const int most = is_cold ? std::min(sets, kMostCountedLaunches) : kMostCountedLaunches;
  counted.launches = wanted < most ? std::max(1, static_cast<int>(wanted)) : most;
  counted.l2 = is_cold ? L2State::swept : L2State::steady;
  const auto start = std::chrono::steady_clock::now();
  try {
    counted.a_launch = per_launch(observers.counters->count({.dtype = problem.dtype,
                                                             .launches = counted.launches,
                                                             .l2 = counted.l2,
                                                             .further = observers.further_counters},
                                                            [&](int) { run.launch_next(); }),
                                  counted.launches);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    counted.reason = error.what();
    return;
  }
  counted.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  counted.valid = observers.wrong_counters.empty();
  counted.reason = observers.wrong_counters;
}

// Rejects wrong counts of tensor FLOPs; a missing count is no reproach.
void judge_tensor_flops(CompetitorRun& run) {
  const char* const library = run.kernel().library;
  Counted& counted = *run.record.counted;
  counted.tensor_flops_of_executed = tensor_flops_of_executed(run.record, library);
  if (!counted.tensor_flops_of_executed) return;
  const std::string wrong =
      wrong_tensor_flops(*counted.tensor_flops_of_executed, run.record.point.problem, library);
  if (!wrong.empty()) throw Ending{Status::invalid, wrong};
}

void judge_claim(CompetitorRun& run, const Device& device) {
  Record& record = run.record;
  const Counted& counted = *record.counted;
  CacheClaim& claim = record.cache_claim.emplace(CacheClaim{.claim = record.protocol.cache});
  if (!counted.valid || !counted.a_launch.dram_read_bytes) {
    claim.reason = counted.reason.empty() ? "dram reads were not counted" : counted.reason;
    return;
  }
  const Memory& memory = *record.memory;
  const Problem& problem = record.point.problem;
  const std::uint64_t unread = bytes_of_inputs(problem) - bytes_read_of_inputs(problem);
  const std::uint64_t touched = memory.inputs_bytes - unread + memory.outputs_bytes +
                                memory.saved_bytes + memory.workspace_bytes;
  claim = judge_cache(record.protocol.cache, *counted.a_launch.dram_read_bytes,
                      static_cast<double>(compulsory_traffic(problem).read_bytes()),
                      static_cast<double>(touched), static_cast<double>(device.l2_bytes));
  if (claim.verdict == ClaimVerdict::rejected) throw Ending{Status::invalid, claim.reason};
}

}  // namespace

std::string contradiction(std::span<const ExecutedKernel> executed,
                          std::span<const Compilation> compiled, const char* library) {
  if (executed.empty()) return "no kernel ran on the device";
  if (compiled.empty()) return "";
  std::vector<bool> has_run(compiled.size(), false);
  for (const ExecutedKernel& kernel : executed) {
    bool is_ours = false;
    bool is_as_compiled = false;
    std::string expected;
    for (std::size_t i = 0; i < compiled.size(); ++i) {
      const CompiledEntry* entry = find_entry(compiled[i], kernel.symbol);
      if (entry == nullptr) continue;
      is_ours = true;
      expected = shape_of(*entry);
      if (shape_of(kernel) != expected) continue;
      is_as_compiled = true;
      has_run[i] = true;
    }
    if (is_ours && !is_as_compiled) {
      return fmt::format("{} ran with {}, and it was compiled for {}", kernel.symbol,
                         shape_of(kernel), expected);
    }
    if (!is_ours && library == nullptr) {
      return fmt::format("{} ran, which is none of the kernel's own", kernel.symbol);
    }
  }
  for (std::size_t i = 0; i < compiled.size(); ++i) {
    if (!has_run[i]) return fmt::format("nothing of unit {} ran", compiled[i].unit);
  }
  return "";
}

CacheClaim judge_cache(CacheState claim, double dram_read_bytes, double compulsory_read_bytes,
                       double working_set_bytes, double l2_bytes) {
  const double share = dram_read_bytes / compulsory_read_bytes;
  CacheClaim judged{.claim = claim, .dram_reads_of_compulsory = share};
  if (claim == CacheState::cold) {
    judged.verdict = share >= kColdShare ? ClaimVerdict::proved : ClaimVerdict::rejected;
    if (judged.verdict == ClaimVerdict::rejected) {
      judged.reason = fmt::format(
          "claims cold caches, but a launch read {:.0f} bytes from dram, {:.1f} % of the {:.0f} "
          "that it must: a cache served the rest",
          dram_read_bytes, 100.0 * share, compulsory_read_bytes);
    }
    return judged;
  }
  if (share <= kHotShare) {
    judged.verdict = ClaimVerdict::proved;
  } else if (working_set_bytes > l2_bytes) {
    judged.reason = fmt::format(
        "a launch touches {:.1f} MiB and the L2 has {:.1f}: inputs come "
        "from dram every time",
        working_set_bytes / 0x1p20, l2_bytes / 0x1p20);
  } else {
    judged.reason = fmt::format("a launch read {:.1f} % of its inputs from dram", 100.0 * share);
  }
  return judged;
}

void observe(CompetitorRun& run, const Observers& observers, const Device& device) {
  trace(run, observers, device);
  count(run, observers, device);
  if (observers.counts_are_required && !run.record.counted->valid) {
    throw Ending{Status::invalid, "--counters require: " + run.record.counted->reason};
  }
  judge_claim(run, device);
  judge_tensor_flops(run);
}

}  // namespace attnlab
