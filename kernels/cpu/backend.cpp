#include "kernels/cpu/backend.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <stdexcept>

namespace attnlab::cpu {
namespace {

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

int usable_threads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

// Physical memory, or what the container allows if that is less (cgroup v2; "max" is no limit).
std::uint64_t usable_memory() {
  const std::uint64_t physical = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::uint64_t limit = 0;
  return limit_file >> limit ? min(physical, limit) : physical;
}

}  // namespace

Device cpu_device() {
  Device device{.backend = Backend::cpu, .name = processor_name()};
  device.threads = usable_threads();
  device.isa = supported_tile_ops().front()->isa;
  device.memory_bytes = usable_memory();
  for (const int level : {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE}) {
    device.cache_bytes.push_back(static_cast<std::uint64_t>(max(0L, sysconf(level))));
  }
  return device;
}

std::string unsupported(const Problem& problem, const Device& device) {
  if (problem.pass != Pass::fwd) return "the CPU backend has no backward pass yet";
  if (problem.dtype != Dtype::f32) {
    return std::string("the CPU backend computes f32 only; ") + to_string(problem.dtype) +
           " does not exist yet";
  }
  if (problem.dropout != 0.0) return "the CPU backend has no dropout yet";
  if (problem.lengths.kind == LengthsKind::packed) {
    return "the CPU backend has no packed sequences yet";
  }
  if (problem.head_dim > 256) return "head_dim is above 256";
  if (problem.mask.blocks) {
    const std::string reason =
        unsupported_pattern(*problem.mask.blocks, problem.seqlen_q, problem.seqlen_k);
    if (!reason.empty()) return reason;
  }
  if (find_tile_ops(device.isa) == nullptr) {
    std::string known;
    for (const TileOps* ops : supported_tile_ops()) {
      known += (known.empty() ? "" : ", ") + std::string(ops->isa);
    }
    return "this processor has no instruction set '" + device.isa + "'; it has: " + known;
  }
  return "";
}

std::vector<Mask> make_masks(const Problem& problem, const std::uint8_t* block_pattern) {
  std::vector<Mask> masks;
  for (i64 b = 0; b < problem.batch; ++b) {
    masks.push_back(make_mask(problem, b, view_block_pattern(problem, block_pattern)));
  }
  return masks;
}

Prepared::Prepared(const Problem& p, const Config& c, const Device& device)
    : problem(p),
      shape(make_shape(p)),
      config(c),
      ops(find_tile_ops(device.isa)),
      pool(ThreadPool::of(device.threads)) {
  if (ops == nullptr) throw std::runtime_error(unsupported(p, device));
}

void Prepared::begin_launch() {
  executors.assign(static_cast<std::size_t>(pool->threads()), Executor(ops));
}

Traffic Prepared::executed() const {
  Traffic total;
  for (const Executor& executor : executors) total += executor.traffic();
  return total;
}

PreparedKernel* prepare(const Problem& problem, const Config& config, const Device& device) {
  return new Prepared(problem, config, device);
}

void release(PreparedKernel* prepared) { delete static_cast<Prepared*>(prepared); }

std::vector<EntryGroup> equal_entries(const Problem& problem) {
  std::map<i64, EntryGroup> by_keys;  // entries differ in their number of keys only
  for (i64 b = 0; b < problem.batch; ++b) {
    EntryGroup& group = by_keys[problem.keys(b)];
    group.entry = b;
    ++group.count;
  }
  std::vector<EntryGroup> groups;
  for (const auto& [keys, group] : by_keys) groups.push_back(group);
  return groups;
}

}  // namespace attnlab::cpu
