#include "kernels/v2/cuda_tiles.h"

#include <vector>

#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/tile_classes.h"

namespace attnlab::v2 {
namespace {

using cuda::kRegistersOfThread;
using cuda::padded_head_dim;

constexpr u64 kReservedBytes = 1024;  // of shared memory, by the system, for each block
constexpr i32 kRegisters = 65536;     // of a multiprocessor
// A thread has these beside accumulators: fragments in flight, addresses, the softmax's state.
constexpr i32 kOtherRegisters = 60;

u64 shared_bytes(const ForwardConfig& config) {
  return static_cast<u64>(forward_tiles(config).bytes());
}
u64 shared_bytes(const BackwardConfig& config) {
  return static_cast<u64>(backward_tiles(config).bytes());
}

// Estimates the registers of a thread.
i32 registers(const ForwardConfig& config) {
  const i32 rows = config.block_m / config.warps;
  const i32 q = config.keeps_q ? config.head_dim / 2 : 0;
  return rows * (config.head_dim + config.block_n + q) / 32 + kOtherRegisters;
}
i32 registers(const BackwardConfig& config) {
  const i32 threads = config.warps * 32;
  const i32 of_keys = 2 * config.block_n * config.head_dim / threads;  // dK, dV
  const i32 slice = config.p_in_registers ? slice_rows(config.block_m) : config.block_m;
  const i32 of_scores = 2 * config.block_n * slice / threads;      // S and dP
  const i32 of_rows = config.block_m * config.head_dim / threads;  // dQ
  return of_keys + max(of_scores, of_rows) + kOtherRegisters;
}

// Returns how many blocks a multiprocessor can hold at once, 0 if not one.
template <class KernelConfig>
i32 blocks_that_fit(const KernelConfig& config, const Device& device) {
  const u64 bytes = shared_bytes(config);
  if (bytes > device.shared_memory_per_block_bytes) return 0;
  if (registers(config) > kRegistersOfThread) return 0;
  const u64 all_bytes = device.shared_memory_per_block_bytes + kReservedBytes;
  const i32 by_memory = static_cast<i32>(all_bytes / (bytes + kReservedBytes));
  const i32 by_registers = kRegisters / (config.warps * 32 * registers(config));
  return max(1, min(by_memory, by_registers));
}

// Returns the first candidate that suits the problem's pattern and fits as many blocks as it wants,
// else the first of them that fits at all, else the last, for which unfit() has a reason.
template <class KernelConfig>
KernelConfig best_of(const std::vector<KernelConfig>& candidates, const Problem& problem,
                     const Device& device) {
  const KernelConfig* any = nullptr;
  for (const KernelConfig& candidate : candidates) {
    if (!cuda::suits_pattern(problem, cuda::tiling_of(candidate))) continue;
    const i32 blocks = blocks_that_fit(candidate, device);
    if (blocks >= candidate.blocks) return candidate;
    if (blocks > 0 && any == nullptr) any = &candidate;
  }
  return any != nullptr ? *any : candidates.back();
}

ForwardConfig fastest_forward(const Problem& problem, const Device& device) {
  const i32 head_dim = padded_head_dim(problem);
  const auto tile = [&](i32 block_m, i32 block_n, i32 stages) {
    return ForwardConfig{.head_dim = head_dim,
                         .block_m = block_m,
                         .block_n = block_n,
                         .warps = 4,
                         .stages = stages,
                         .keeps_q = head_dim <= 64 && block_n <= 64,
                         .blocks = 2};
  };
  const auto best = [&](const std::vector<ForwardConfig>& candidates) {
    return best_of(candidates, problem, device);
  };
  if (head_dim == 64 && !problem.drops()) {
    return best({tile(128, 128, 1), tile(128, 64, 1), tile(64, 64, 1)});
  }
  if (head_dim == 128 && problem.drops()) {  // with 64 keys registers spill
    return best({tile(128, 48, 2), tile(128, 48, 1), tile(64, 64, 2)});
  }
  if (head_dim <= 128) return best({tile(128, 64, 2), tile(128, 64, 1), tile(64, 64, 2)});
  // Where a tile of keys is cut off, by a window or by the end of a short sequence, smaller ones
  // waste less.
  const bool has_border = problem.mask.left() >= 0 || problem.mask.right() >= 0;
  if (head_dim == 256 && !has_border && problem.seqlen_k >= 1024 && !problem.drops()) {
    return best({tile(64, 80, 1), tile(64, 64, 1)});
  }
  return best({tile(64, 64, 1)});
}

// Returns whether each warp has 32 keys, and room for their dK and dV beside S and dP. With 16
// keys, a fragment from shared memory serves half as many products, and sharing P is faster.
bool can_keep_p(const BackwardConfig& config) {
  return config.block_n == 32 * config.warps && config.head_dim <= 64 &&
         config.block_m % slice_rows(config.block_m) == 0;
}

BackwardConfig fastest_backward(const Problem& problem, const Device& device) {
  const i32 head_dim = padded_head_dim(problem);
  const auto tile = [&](i32 block_m, i32 block_n, i32 warps, i32 blocks) {
    BackwardConfig config = {.head_dim = head_dim,
                             .block_m = block_m,
                             .block_n = block_n,
                             .warps = warps,
                             .blocks = blocks};
    config.p_in_registers = can_keep_p(config);
    return config;
  };
  const auto best = [&](const std::vector<BackwardConfig>& candidates) {
    return best_of(candidates, problem, device);
  };
  if (head_dim <= 64) return best({tile(64, 128, 4, 2), tile(64, 64, 4, 2)});
  if (head_dim <= 128) {
    return best({tile(64, 128, 8, 1), tile(64, 64, 8, 1), tile(32, 64, 8, 1)});
  }
  return best({tile(64, 64, 8, 1), tile(32, 64, 8, 1)});
}

// Sets `value` to what the config has under `name`, unless that is open.
bool take(const Config& config, const char* name, i32& value) {
  if (config.get(name) == 0) return false;
  value = static_cast<i32>(config.get(name));
  return true;
}

template <class KernelConfig>
bool take_tile(const Config& config, KernelConfig& kernel) {
  bool changed = take(config, "block_m", kernel.block_m);
  changed |= take(config, "block_n", kernel.block_n);
  changed |= take(config, "warps", kernel.warps);
  changed |= take(config, "stages", kernel.stages);
  return changed;
}

std::string number(i64 value) { return std::to_string(value); }

// Returns why neither pass takes such a tile, or an empty text.
template <class KernelConfig>
std::string unfit_tile(const KernelConfig& config) {
  if (config.block_m % 16 != 0 || config.block_n % 16 != 0) {
    return "tiles are made of pieces of 16x16: block_m = " + number(config.block_m) +
           " and block_n = " + number(config.block_n) + " must be multiples of 16";
  }
  if (config.warps != 2 && config.warps != 4 && config.warps != 8 && config.warps != 16) {
    return "warps = " + number(config.warps) + ": there must be 2, 4, 8 or 16";
  }
  return "";
}

template <class KernelConfig>
std::string unfit_resources(const KernelConfig& config, const Device& device) {
  const std::string tile = "a tile of " + number(config.block_m) + "x" + number(config.block_n) +
                           " at head_dim " + number(config.head_dim) + " with " +
                           number(config.warps) + " warps and stages = " + number(config.stages) +
                           " needs ";
  if (const u64 bytes = shared_bytes(config); bytes > device.shared_memory_per_block_bytes) {
    return tile + std::to_string(bytes) + " bytes of shared memory, a block has at most " +
           std::to_string(device.shared_memory_per_block_bytes);
  }
  if (const i32 needed = registers(config); needed > kRegistersOfThread) {
    return tile + "about " + number(needed) + " registers a thread, which has at most " +
           number(kRegistersOfThread);
  }
  if (const i32 all = registers(config) * config.warps * 32; all > kRegisters) {
    return tile + "about " + number(all) + " registers, a multiprocessor has " + number(kRegisters);
  }
  return "";
}

}  // namespace

ForwardConfig forward_config_of(const Problem& problem, const Config& config,
                                const Device& device) {
  ForwardConfig kernel = fastest_forward(problem, device);
  kernel.dropout = problem.drops();
  if (take_tile(config, kernel)) {
    kernel.keeps_q = kernel.head_dim <= 64;
    if (registers(kernel) > kRegistersOfThread) kernel.keeps_q = false;
  }
  kernel.blocks = max(1, blocks_that_fit(kernel, device));
  return kernel;
}

BackwardConfig backward_config_of(const Problem& problem, const Config& config,
                                  const Device& device) {
  BackwardConfig kernel = fastest_backward(problem, device);
  kernel.dropout = problem.drops();
  if (take_tile(config, kernel)) kernel.p_in_registers = can_keep_p(kernel);
  kernel.blocks = max(1, blocks_that_fit(kernel, device));
  return kernel;
}

std::string unfit(const ForwardConfig& config, const Device& device) {
  if (std::string reason = unfit_tile(config); !reason.empty()) return reason;
  if (config.block_m % (16 * config.warps) != 0) {
    return "each of " + number(config.warps) +
           " warps takes 16 rows or a multiple of them: block_m" + " = " + number(config.block_m) +
           " must be a multiple of " + number(16 * config.warps);
  }
  return unfit_resources(config, device);
}

std::string unfit(const BackwardConfig& config, const Device& device) {
  if (std::string reason = unfit_tile(config); !reason.empty()) return reason;
  if (config.stages != 2) {
    return "stages = " + number(config.stages) + ": the backward has 2, no more and no fewer";
  }
  const auto divides = [&](i32 rows, i32 columns) {
    return warp_grid(config.warps, rows, columns).rows > 0;
  };
  if (!config.p_in_registers &&
      (!divides(config.block_n, config.block_m) || !divides(config.block_n, config.head_dim))) {
    return number(config.warps) + " warps cannot divide a tile of " + number(config.block_m) + "x" +
           number(config.block_n) + " into pieces of 16x16 for each: take fewer";
  }
  if (!divides(config.block_m, config.head_dim)) {
    return number(config.warps) + " warps cannot divide block_m = " + number(config.block_m) +
           " rows of dQ into pieces of 16x16 for each: take fewer";
  }
  return unfit_resources(config, device);
}

std::vector<ConfigsToVerify> configs_to_verify() {
  const auto tile = [](i64 block_m, i64 block_n, i64 warps = 0, i64 stages = 0) {
    return Config{{"block_m", block_m}, {"block_n", block_n}, {"warps", warps}, {"stages", stages}};
  };
  return {{.head_dim = 64,
           .dtype = Dtype::f16,
           .configs = {tile(16, 16), tile(32, 48, 2, 3), tile(64, 80, 4, 2), tile(96, 32, 2, 2),
                       tile(16, 128, 4), tile(256, 16, 16, 4)}},
          {.head_dim = 128,
           .dtype = Dtype::bf16,
           .configs = {tile(64, 32, 4, 1), tile(128, 48, 8, 3), tile(64, 48, 4, 2)}},
          {.head_dim = 64,
           .dtype = Dtype::bf16,
           .dropout = 0.2,
           .configs = {tile(64, 96, 4, 2), tile(96, 64, 4)}},
          {.head_dim = 128, .dtype = Dtype::f16, .dropout = 0.2, .configs = {tile(32, 64, 8)}}};
}

}  // namespace attnlab::v2
