#include "kernels/v3/cuda_tiles.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/tile_classes.h"

namespace attnlab::v3 {
namespace {

// A wgmma exists for these values of n (kernels/ptx/wgmma.cuh).
constexpr std::array kBlockN = {64, 80, 96, 112, 128, 144, 160, 176, 192};
// e4m3 takes only these: its V^T has keys in whole slabs.
constexpr std::array kE4m3BlockN = {64, 128, 192};
constexpr i32 kSharedBytes = 227 * 1024;  // that a block can have, on the chips that have wgmma
constexpr i32 kReservedBytes = 1024;      // of shared memory, by the system, for each block
// A consumer's thread has these beside accumulators and P: addresses, the softmax's state, what is
// in flight; and, with dropout, the random numbers.
constexpr i32 kOtherRegisters = 24;
constexpr i32 kMoreOfE4m3 = 16;  // of overlap and of block patterns, where O is not promoted
constexpr i32 kDropoutRegisters = 24;

std::string number(i64 value) { return std::to_string(value); }

i32 padded_head_dim(const Problem& problem) {
  return round_up(static_cast<i32>(problem.head_dim), SlabTile::kColumns);
}

// Returns about how many keys a row sees at most.
i64 keys_seen(const Problem& problem) {
  const MaskSpec& mask = problem.mask;
  const bool is_window = mask.right() >= 0 && mask.left() >= 0;
  return min<i64>(is_window ? mask.left() + mask.right() : problem.seqlen_k, problem.seqlen_k);
}

// The values come from results/nvidia-h200/v3-tune.jsonl, and under block patterns from
// v3-tune-patterns.jsonl beside it; 192x80 under a causal mask and forward_config_of()'s three
// stages come from TUNING.md, version 27. All else has the 128x128 of ForwardConfig. With three
// consumers registers do not suffice for dropout's numbers.
ForwardConfig fastest_forward(const Problem& problem) {
  ForwardConfig config = {.head_dim = padded_head_dim(problem)};
  const bool is_causal = problem.mask.right() >= 0;
  const i64 seen = keys_seen(problem);
  const bool drops = problem.drops();
  if (problem.has_pattern()) {
    const i32 keys = config.head_dim <= 128 ? 128 : 64;
    for (const Tiling& tile : {Tiling{128, keys}, Tiling{128, 64}, Tiling{64, 64}}) {
      config.consumers = tile.block_m / 64;
      config.block_n = tile.block_n;
      if (cuda::suits_pattern(problem, tile)) break;
    }
  } else if (config.head_dim == 64 && is_causal && seen <= 1024 && !drops) {
    // Small tiles waste less, and while one of three blocks is between two work items the others
    // compute.
    config.consumers = 1;
    config.block_n = 64;
  } else if (config.head_dim == 64) {
    config.consumers =
        static_cast<i32>(min<i64>(drops ? 2 : 3, ceil_div<i64>(problem.seqlen_q, 64)));
  } else if (config.head_dim == 128 && !drops &&
             min(problem.seqlen_q, seen) >= (is_causal ? 8192 : 2048)) {
    config.consumers = 3;
    config.block_n = 80;
  } else if (config.head_dim == 192) {
    config.block_n = drops ? 96 : 112;  // 112 spill 28 bytes beside dropout's numbers
  } else if (config.head_dim == 256) {
    config.block_n = 64;
  }
  return config;
}

// Returns the keys of a backward's tile: registers and shared memory hold dK and dV of no more.
i32 most_keys(i32 head_dim) { return head_dim <= 128 ? 128 : head_dim == 192 ? 96 : 80; }

// Gives long sequences the larger tiles that were faster there (TUNING.md, e10 and e14). Short ones
// would fill fewer multiprocessors, and waste more at a causal mask's border. Where blocks of 128
// keys have scales, 192 keys have none of their own.
void take_larger_e4m3_tiles(const Problem& problem, ForwardConfig& config) {
  const bool takes_192_keys = !problem.quantisation.has_blocks();
  const bool is_causal = problem.mask.right() >= 0;
  const i64 length = min(problem.seqlen_q, keys_seen(problem));
  if (config.head_dim == 64 && problem.seqlen_q >= 2048) {
    config.consumers = 3;
    config.stages = 3;
    if (config.promote && takes_192_keys) config.block_n = 192;
  } else if (config.head_dim == 128 && config.promote && length >= (is_causal ? 8192 : 2048)) {
    config.consumers = 3;
    config.stages = 2;
  } else if (config.head_dim == 128 && !config.promote && takes_192_keys &&
             length >= (is_causal ? 4096 : 2048)) {
    config.block_n = 192;
    config.stages = 2;
  }
}

// Three stages were up to 11 % faster than two (TUNING.md, e11), where there is room for them.
ForwardConfig fastest_e4m3_forward(const Problem& problem, const Config& own) {
  ForwardConfig config = {.head_dim = padded_head_dim(problem)};
  config.e4m3 = true;
  config.promote = own.get("promote") >= 0 ? own.get("promote") != 0 : config.head_dim <= 128;
  config.v_columns = problem.quantisation.v == ScaleOf::channel;
  config.block_n = config.head_dim == 256 && (config.promote || problem.has_pattern()) ? 64 : 128;
  config.stages = config.head_dim == 64 && config.promote         ? 4
                  : config.head_dim * config.block_n <= 128 * 128 ? 3
                                                                  : 2;
  if (!problem.has_pattern()) {
    take_larger_e4m3_tiles(problem, config);
    return config;
  }
  for (const Tiling& tile : {Tiling{128, config.block_n}, Tiling{128, 64}, Tiling{64, 64}}) {
    config.consumers = tile.block_m / 64;
    config.block_n = tile.block_n;
    if (cuda::suits_pattern(problem, tile)) break;
  }
  return config;
}

// Returns whether a consumer on e4m3 has registers for P V of a tile beside S of the next one: not
// promoted it lacks them with 128 keys beside O of 256 columns (96 bytes of spills).
bool overlaps_on_e4m3(const ForwardConfig& config) {
  return config.promote ? config.consumers < 3 && config.head_dim <= 128
                        : config.head_dim < 256 || config.block_n == 64;
}

// Estimates the registers that a consumer's thread needs. On e4m3 a promoted P V has registers of
// its own. Without overlap these and P's may be those of S, which is done by then, but for a block
// pattern: three consumers, 192x128 at head_dim 128, spilled 740 bytes. Not so where O is not
// promoted: three consumers at head_dim 128 spilled 1164 bytes. There overlap and patterns take
// more: 128x128 at 256 spilled 176 and 8 bytes.
i32 registers(const ForwardConfig& config) {
  if (config.e4m3) {
    const i32 scores = config.block_n / 2, p = config.block_n / 8;
    const i32 others = config.head_dim / 2 + kOtherRegisters;
    const bool takes_more = config.overlap || config.pattern;
    if (!config.promote) return others + scores + p + (takes_more ? kMoreOfE4m3 : 0);
    const i32 p_and_product = p + config.head_dim / config.parts_of_pv() / 2;
    return others + (takes_more ? scores + p_and_product : max(scores, p_and_product));
  }
  return config.block_n / 2 + config.block_n / 4 + config.head_dim / 2 + kOtherRegisters +
         (config.dropout ? kDropoutRegisters : 0);
}

bool fits(const ForwardConfig& config) {
  return config.blocks * (forward_tiles(config).bytes() + kReservedBytes) <=
             kSharedBytes + kReservedBytes &&
         registers(config) <= config.consumer_registers();
}

// Lets as many thread blocks of one consumer share a multiprocessor as fit, three at most. To fit a
// block more it first gives up O's own memory, then the second stage of Q. On e4m3 a block has a
// multiprocessor to itself, and O, twice as large as Q, has its own memory.
ForwardConfig share_multiprocessor(ForwardConfig config) {
  if (config.e4m3) {
    config.q_stages = config.head_dim <= 192 ? 2 : 1;
    return config;
  }
  for (config.blocks = config.consumers == 1 ? 3 : 1;; --config.blocks) {
    for (const i32 tiles_of_rows : {3, 2, 1}) {  // of Q and O
      config.separate_o = tiles_of_rows == 3;
      config.q_stages = min(tiles_of_rows, 2);
      if (fits(config)) return config;
    }
    if (config.blocks == 1) return config;
  }
}

// Returns the reason why the kernel on e4m3 is not built so, or an empty text.
std::string unfit_e4m3(const ForwardConfig& config) {
  if (std::ranges::find(kE4m3BlockN, config.block_n) == kE4m3BlockN.end()) {
    return "block_n = " + number(config.block_n) + ": on e4m3 it must be 64, 128 or 192";
  }
  if (!config.producer) return "producer = 0: on e4m3 a warpgroup loads";
  return "";
}

}  // namespace

ForwardConfig forward_config_of(const Problem& problem, const Config& config) {
  ForwardConfig kernel =
      problem.is_e4m3() ? fastest_e4m3_forward(problem, config) : fastest_forward(problem);
  const auto take = [&config](const char* name, i32& value) {
    if (config.get(name) != 0) value = static_cast<i32>(config.get(name));
  };
  if (config.get("block_m") != 0) kernel.consumers = static_cast<i32>(config.get("block_m")) / 64;
  take("consumers", kernel.consumers);
  take("block_n", kernel.block_n);
  if (!kernel.e4m3 && kernel.head_dim == 64 && kernel.consumers == 3) kernel.stages = 3;
  take("stages", kernel.stages);
  const auto take_truth = [&config](const char* name, bool& value) {
    if (config.get(name) >= 0) value = config.get(name) != 0;
  };
  kernel.left = problem.mask.left() >= 0;
  kernel.pattern = problem.mask.blocks.has_value();
  kernel.dropout = problem.drops();
  take_truth("producer", kernel.producer);
  if (kernel.e4m3) kernel.overlap = overlaps_on_e4m3(kernel);
  take_truth("overlap", kernel.overlap);
  // Ping-pong pays for two and three, but not beside dropout's numbers at head_dim 64, and on e4m3
  // at 256 alone (TUNING.md, e17).
  const bool gains_by_turns =
      kernel.e4m3 ? kernel.head_dim == 256 : !(kernel.dropout && kernel.head_dim == 64);
  kernel.ping_pong = kernel.consumers > 1 && kernel.producer && gains_by_turns;
  take_truth("ping_pong", kernel.ping_pong);
  return kernel.consumers < 1 ? kernel : share_multiprocessor(kernel);  // unfit() says so
}

std::string unfit(const ForwardConfig& config, const Device& device) {
  if (config.consumers < 1 || config.consumers > 3) {
    return "consumers = " + number(config.consumers) + ": there must be 1, 2 or 3";
  }
  if (config.consumers == 1 && config.ping_pong) {
    return "ping_pong = 1: it takes two or three consumers";
  }
  if (!config.producer && config.ping_pong) {
    return "ping_pong = 1 with producer = 0: a consumer that waits for others cannot load for them";
  }
  if (!config.producer && !config.overlap) {
    return "overlap = 0 with producer = 0: ptxas would let no product run beside its threads";
  }
  if (config.e4m3) {
    if (std::string reason = unfit_e4m3(config); !reason.empty()) return reason;
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

BackwardConfig backward_config_of(const Problem& problem, const Config& config) {
  BackwardConfig kernel = {.head_dim = padded_head_dim(problem)};
  kernel.block_m = kernel.head_dim == 64 ? 128 : 64;
  kernel.block_n = most_keys(kernel.head_dim);
  kernel.pattern = problem.mask.blocks.has_value();
  kernel.dropout = problem.drops();
  const auto take = [&config](const char* name, i32& value) {
    if (config.get(name) != 0) value = static_cast<i32>(config.get(name));
  };
  take("block_m", kernel.block_m);
  take("block_n", kernel.block_n);
  take("stages", kernel.stages);
  kernel.deterministic = config.get("deterministic") != 0;
  return kernel;
}

std::string unfit(const BackwardConfig& config, const Device& device) {
  const std::string at_head_dim = ": a backward at head_dim " + number(config.head_dim) + " has ";
  const i32 keys = most_keys(config.head_dim);
  const bool fewer = config.head_dim == 256 && config.block_n == 64;
  if (config.block_n != keys && !fewer) {
    return "block_n = " + number(config.block_n) + at_head_dim + number(keys) +
           (config.head_dim == 256 ? " or 64" : "") + " keys a tile";
  }
  if (config.stages != 2) {
    return "stages = " + number(config.stages) + ": a backward has 2, no more and no fewer";
  }
  if (const i32 rows = config.head_dim == 64 ? 128 : 64; config.block_m != rows) {
    return "block_m = " + number(config.block_m) + at_head_dim + number(rows) + " rows a tile";
  }
  if (const i32 bytes = backward_tiles(config).bytes();
      static_cast<u64>(bytes) > device.shared_memory_per_block_bytes) {
    return "a backward's tile of " + number(config.block_m) + "x" + number(config.block_n) +
           " at head_dim " + number(config.head_dim) + " with stages = " + number(config.stages) +
           " needs " + number(bytes) + " bytes of shared memory, a block has at most " +
           std::to_string(device.shared_memory_per_block_bytes);
  }
  return "";
}

std::vector<ConfigsToVerify> configs_to_verify() {
  struct Roles {
    bool overlap, ping_pong;
    bool producer = true;
  };
  const auto tile = [](i64 consumers, i64 block_n, i64 stages, Roles roles) {
    return Config{{"consumers", consumers},
                  {"block_n", block_n},
                  {"stages", stages},
                  {"producer", roles.producer ? 1 : 0},
                  {"overlap", roles.overlap ? 1 : 0},
                  {"ping_pong", roles.ping_pong ? 1 : 0}};
  };
  const auto rows = [](i64 block_m, i64 block_n) {
    return Config{{"block_m", block_m}, {"block_n", block_n}, {"stages", 2}};
  };
  const auto of_e4m3 = [&](i64 consumers, i64 block_n, i64 stages, Roles roles, bool promote) {
    Config config = tile(consumers, block_n, stages, roles);
    config.set("promote", promote ? 1 : 0);
    return config;
  };
  return {
      {.head_dim = 64,
       .dtype = Dtype::f16,
       .configs = {rows(64, 80), tile(1, 64, 2, {true, false}), tile(2, 96, 3, {false, true}),
                   tile(3, 64, 2, {true, true})}},
      {.head_dim = 128,
       .dtype = Dtype::bf16,
       .configs = {rows(64, 48), tile(1, 96, 2, {true, false}), tile(2, 112, 2, {false, false}),
                   tile(2, 96, 2, {true, false, false}), tile(3, 80, 2, {true, true})}},
      {.head_dim = 64,
       .dtype = Dtype::bf16,
       .dropout = 0.2,
       .configs = {rows(64, 96), tile(2, 64, 4, {true, true}), tile(1, 80, 2, {false, false})}},
      {.head_dim = 128, .dtype = Dtype::f16, .configs = {tile(3, 80, 2, {true, true})}},
      {.head_dim = 128,
       .dtype = Dtype::f16,
       .dropout = 0.2,
       .configs = {tile(2, 64, 2, {false, true})}},
      {.head_dim = 256, .dtype = Dtype::f16, .configs = {rows(64, 64)}},
      {.head_dim = 64,
       .dtype = Dtype::e4m3,
       .configs = {of_e4m3(1, 64, 2, {true, false}, true), of_e4m3(2, 64, 3, {false, true}, true),
                   of_e4m3(2, 128, 4, {true, true}, false),
                   of_e4m3(3, 128, 2, {true, false}, false),
                   of_e4m3(3, 128, 2, {false, false}, true)}},
      {.head_dim = 128,
       .dtype = Dtype::e4m3,
       .configs = {of_e4m3(1, 128, 2, {false, false}, true), of_e4m3(2, 64, 2, {true, true}, true),
                   of_e4m3(2, 64, 3, {true, false}, false),
                   of_e4m3(3, 128, 2, {false, false}, true)}},
      {.head_dim = 256,
       .dtype = Dtype::e4m3,
       .configs = {of_e4m3(2, 64, 3, {false, false}, true),
                   of_e4m3(2, 128, 2, {false, false}, false)}},
      {.head_dim = 64,
       .dtype = Dtype::e4m3,
       .quantisation = {.qk = ScaleOf::head, .v = ScaleOf::head},
       .configs = {of_e4m3(3, 192, 3, {false, false}, true)}},
      {.head_dim = 128,
       .dtype = Dtype::e4m3,
       .quantisation = {.qk = ScaleOf::head},
       .configs = {of_e4m3(2, 192, 2, {true, false}, false)}}};
}

}  // namespace attnlab::v3
