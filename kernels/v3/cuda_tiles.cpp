#include "kernels/v3/cuda_tiles.h"

#include <array>

#include "kernels/cuda/mma_sync.h"

namespace attnlab::v3 {
namespace {

// Those for which there is a wgmma (kernels/ptx/wgmma.cuh).
constexpr std::array kBlockN = {64, 80, 96, 112, 128, 144, 160, 176, 192};
constexpr i32 kSharedBytes = 227 * 1024;  // that a block can have, on the chips that have wgmma
constexpr i32 kReservedBytes = 1024;      // of shared memory, by the system, for each block
// Of a consumer's thread, beside sums and P: addresses, the softmax's state, what is on its way.
constexpr i32 kOtherRegisters = 24;

std::string number(i64 value) { return std::to_string(value); }

i32 padded_head_dim(const Problem& problem) {
  return round_up(static_cast<i32>(problem.head_dim), SlabTile::kColumns);
}

ForwardConfig fastest_forward(const Problem& problem) {
  ForwardConfig config = {.head_dim = padded_head_dim(problem)};
  if (config.head_dim == 64) {
    // Three consumers have no registers for dropout's numbers; and where a causal mask leaves few
    // keys to see, smaller tiles waste less.
    const bool few_keys = problem.mask.right() >= 0 && problem.seqlen_k <= 1024;
    config.consumers = cuda::drops(problem) || few_keys ? 2 : 3;
    config.ping_pong = config.consumers == 3;
  }
  if (config.head_dim == 192) config.block_n = 112;
  if (config.head_dim == 256) config.block_n = 64;
  return config;
}

// Of a consumer's thread, estimated.
i32 registers(const ForwardConfig& config) {
  return config.block_n / 2 + config.block_n / 4 + config.head_dim / 2 + kOtherRegisters;
}

}  // namespace

ForwardConfig forward_config_of(const Problem& problem, const Config& config) {
  ForwardConfig kernel = fastest_forward(problem);
  const auto take = [&config](const char* name, i32& value) {
    if (config.get(name) != 0) value = static_cast<i32>(config.get(name));
  };
  if (config.get("block_m") != 0) kernel.consumers = static_cast<i32>(config.get("block_m")) / 64;
  take("consumers", kernel.consumers);
  take("block_n", kernel.block_n);
  take("stages", kernel.stages);
  const auto take_truth = [&config](const char* name, bool& value) {
    if (config.get(name) >= 0) value = config.get(name) != 0;
  };
  take_truth("producer", kernel.producer);
  if (kernel.consumers == 1 || !kernel.producer) kernel.ping_pong = false;
  take_truth("overlap", kernel.overlap);
  take_truth("ping_pong", kernel.ping_pong);
  // Two blocks of one consumer share a multiprocessor where they fit.
  const auto fits = [&kernel](i32 blocks) {
    return blocks * (forward_tiles(kernel).bytes() + kReservedBytes) <=
           kSharedBytes + kReservedBytes;
  };
  const i32 blocks = kernel.consumers == 1 ? 2 : 1;
  if (!fits(blocks)) kernel.own_o = false;
  if (!fits(blocks)) kernel.q_stages = 1;
  kernel.blocks = fits(blocks) ? blocks : 1;
  kernel.left = problem.mask.left() >= 0;
  kernel.pattern = problem.mask.blocks.has_value();
  kernel.dropout = cuda::drops(problem);
  return kernel;
}

std::string unfit(const ForwardConfig& config, const Device& device) {
  if (config.consumers < 1 || config.consumers > 3) {
    return "consumers = " + number(config.consumers) + ": there must be 1, 2 or 3";
  }
  if (config.consumers == 1 && config.ping_pong) {
    return "ping_pong = 1: one consumer has nobody to take turns with";
  }
  if (!config.producer && config.ping_pong) {
    return "ping_pong = 1 with producer = 0: who waits for a turn cannot load for the others";
  }
  if (!config.producer && !config.overlap) {
    return "overlap = 0 with producer = 0: ptxas would let no product run beside its threads";
  }
  bool exists = false;
  for (const i32 block_n : kBlockN) exists = exists || block_n == config.block_n;
  if (!exists) {
    return "block_n = " + number(config.block_n) + ": it must be a multiple of 16 from 64 to 192";
  }
  const std::string tile = "a tile of " + number(config.block_m()) + "x" + number(config.block_n) +
                           " at head_dim " + number(config.head_dim) +
                           " with stages = " + number(config.stages) + " needs ";
  const u64 bytes = static_cast<u64>(forward_tiles(config).bytes());
  if (bytes > device.shared_memory_per_block_bytes) {
    return tile + std::to_string(bytes) + " bytes of shared memory, a block has at most " +
           std::to_string(device.shared_memory_per_block_bytes);
  }
  if (const i32 needed = registers(config); needed > config.consumer_registers()) {
    return tile + "about " + number(needed) + " registers a thread of a consumer, which has " +
           number(config.consumer_registers());
  }
  return "";
}

}  // namespace attnlab::v3
