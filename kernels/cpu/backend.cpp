#include "kernels/cpu/backend.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "kernels/shared/quantise.h"

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

// Returns physical memory, or the container's limit if less (cgroup v2; "max" is no limit).
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

std::vector<BatchEntry> make_entries(const Problem& problem, const std::uint8_t* block_pattern) {
  const BlockPattern blocks = view_block_pattern(problem, block_pattern);
  std::vector<BatchEntry> entries;
  BatchEntry next;
  for (i64 b = 0; b < problem.batch; ++b) {
    next.mask = make_mask(problem, b, blocks);
    entries.push_back(next);
    if (problem.layout == Layout::packed) {
      next.first_row += problem.queries(b);
      next.first_key += problem.keys(b);
    }
  }
  return entries;
}

SliceTensors::SliceTensors(const Problem& problem, const Shape& shape, const BatchEntry& entry,
                           const Tensors& tensors, i64 batch, i64 head)
    : shape_(shape),
      entry_(entry),
      tensors_(tensors),
      problem_(problem),
      batch_(batch),
      head_(head) {}

namespace {

// Null stays null: then nothing is read, only counted.
const float* from(const float* scales, i64 first) {
  return scales == nullptr ? nullptr : scales + first;
}

}  // namespace

GlobalRows SliceTensors::q(Range rows) const {
  if (!problem_.is_e4m3()) return query_rows(Operand::q, tensors_.q, rows);
  GlobalRows codes = query_rows(Operand::q, tensors_.e4m3.q, rows);
  codes.dtype = Dtype::e4m3;
  const i64 blocks = ceil_div(shape_.seqlen_q, kScaleRows);
  codes.scales = {.data = from(tensors_.e4m3.scale_q, index() * blocks), .first_row = rows.begin};
  return codes;
}

GlobalRows SliceTensors::k(Range keys) const {
  if (!problem_.is_e4m3()) return key_rows(Operand::k, tensors_.k, keys);
  return key_codes(Operand::k, tensors_.e4m3.k, tensors_.e4m3.scale_k, problem_.quantisation.qk,
                   keys);
}

GlobalRows SliceTensors::v(Range keys) const {
  if (!problem_.is_e4m3()) return key_rows(Operand::v, tensors_.v, keys);
  return key_codes(Operand::v, tensors_.e4m3.v, tensors_.e4m3.scale_v, problem_.quantisation.v,
                   keys);
}

GlobalRows SliceTensors::key_codes(Operand operand, const std::uint8_t* data, const float* scales,
                                   ScaleOf scale_of, Range keys) const {
  GlobalRows codes = key_rows(operand, data, keys);
  codes.dtype = Dtype::e4m3;
  const bool of_columns = scale_of == ScaleOf::channel;
  const i64 head = batch_ * shape_.num_heads_kv + shape_.kv_head(head_);
  const i64 each = of_columns ? shape_.head_dim : ceil_div(shape_.seqlen_k, kScaleRows);
  codes.scales = {
      .data = from(scales, head * each), .of_columns = of_columns, .first_row = keys.begin};
  return codes;
}

// Tensors are handed over as inputs and outputs alike; store() is only given outputs.
GlobalRows SliceTensors::query_rows(Operand operand, const void* data, Range rows) const {
  return {.operand = operand,
          .dtype = problem_.output_dtype(),
          .data = const_cast<void*>(data),
          .offset = shape_.q.offset(batch_, head_, entry_.first_row + rows.begin),
          .row_stride = shape_.q.row,
          .rows = rows.size(),
          .columns = shape_.head_dim};
}

GlobalRows SliceTensors::key_rows(Operand operand, const void* data, Range keys) const {
  return {.operand = operand,
          .dtype = problem_.output_dtype(),
          .data = const_cast<void*>(data),
          .offset = shape_.k.offset(batch_, shape_.kv_head(head_), entry_.first_key + keys.begin),
          .row_stride = shape_.k.row,
          .rows = keys.size(),
          .columns = shape_.head_dim};
}

GlobalRows SliceTensors::statistic(Operand operand, const float* data, Range rows) const {
  return {.operand = operand,
          .data = const_cast<float*>(data),
          .offset = shape_.row_statistic_offset(batch_, head_, rows.begin),
          .row_stride = rows.size(),
          .rows = 1,
          .columns = rows.size()};
}

GlobalRows SliceTensors::accumulator(Operand operand, const float* data, Range rows) const {
  return {.operand = operand,
          .data = const_cast<float*>(data),
          .offset = shape_.row_statistic_offset(batch_, head_, rows.begin) * shape_.head_dim,
          .row_stride = shape_.head_dim,
          .rows = rows.size(),
          .columns = shape_.head_dim};
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

}  // namespace attnlab::cpu
