#include "kernels/v1/cuda_tiles.h"

#include <initializer_list>

#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/tile_classes.h"

namespace attnlab::v1 {
namespace {

using cuda::kRegistersOfThread;
using cuda::padded_head_dim;

constexpr i32 kRegisters = 65536;  // of a multiprocessor
// A thread has these beside accumulators: fragments in flight, addresses, weights.
constexpr i32 kOtherRegisters = 60;
constexpr i32 kOtherRegistersForward = 70;
constexpr i32 kLargestBlock = 256;

u64 shared_bytes(const ForwardConfig& config) {
  return static_cast<u64>(forward_tiles(config).bytes());
}
u64 shared_bytes(const BackwardConfig& config) {
  return static_cast<u64>(backward_tiles(config).bytes());
}
template <class KernelConfig>
bool fits_shared(const KernelConfig& config, const Device& device) {
  return shared_bytes(config) <= device.shared_memory_per_block_bytes;
}

// Estimates the registers of a thread.
i32 registers(const ForwardConfig& config) {
  const i32 s = config.slice_rows * config.warp_keys() / 32;
  const i32 pv = config.slice_rows * config.columns / 32;
  const i32 o = config.keeps_o ? config.slice_rows * config.head_dim / config.splits / 32 : 0;
  return max(s, s / 2 + pv) + o + kOtherRegistersForward;
}
i32 registers(const BackwardConfig& config) {
  const i32 threads = config.team_warps() * 32;
  const i32 slice = config.p_in_registers() ? config.slice_rows() : config.block_m;
  const i32 of_keys = 2 * config.block_n * config.head_dim / threads;  // dK, dV
  const i32 of_scores = 2 * config.block_n * slice / threads;          // S and dP
  const i32 of_rows = config.block_m * config.head_dim / threads;      // dQ
  return of_keys + max(of_scores, of_rows) + kOtherRegisters;
}

i32 whole_pieces(i64 elements) {
  return static_cast<i32>(min<i64>(kLargestBlock, max<i64>(16, elements / 16 * 16)));
}

// Returns the tile that the config asks for; sizes that it leaves open are 0.
AskedBlocks asked_blocks(const Problem& problem, const Config& config) {
  AskedBlocks asked = {.block_m = config.get("block_m"), .block_n = config.get("block_n")};
  if (config.get("sram") == 0) return asked;
  const Tiling paper = make_tiling(config.get("sram"), problem.head_dim);
  if (asked.block_m == 0) asked.block_m = whole_pieces(paper.block_m);
  if (asked.block_n == 0) asked.block_n = whole_pieces(paper.block_n);
  return asked;
}

// Fills in all that follows from the tile. Two warps split its keys: with four, more parts of P V
// pass through shared memory (TUNING.md). It takes as many teams as memory and registers allow; the
// running O is kept in shared memory, unless another team fits without it.
ForwardConfig complete(ForwardConfig config, const Device& device) {
  config.splits = config.block_n % 32 == 0 ? 2 : 1;
  for (const i32 slice_rows : {32, 16}) {
    if (config.block_m % slice_rows != 0) continue;
    config.slice_rows = slice_rows;
    for (config.teams = 4; config.teams >= 1; --config.teams) {
      // Two warps share 16 rows by pieces of 16 columns; wide slices take fewer columns at a time.
      config.columns = slice_rows == 16 && config.splits > 1 ? 32 : 16;
      const i32 threads = config.warps() * 32;
      for (const bool keeps_o : {false, true}) {
        // Shares of 32 rows, or those that no other warp has a part of, are too many registers.
        if (keeps_o && (slice_rows == 32 || config.splits == 1)) continue;
        config.keeps_o = keeps_o;
        if (registers(config) > min(kRegistersOfThread, kRegisters / threads)) continue;
        if (fits_shared(config, device)) return config;
      }
    }
  }
  config.teams = 1;
  config.keeps_o = false;
  return config;
}

// Takes two teams where their warps have 32 keys each, so that a fragment of keys serves two
// products, and there are memory and registers for two.
BackwardConfig complete(BackwardConfig config, const Device& device) {
  config.teams = 2;
  const bool fits = config.block_n == 32 * config.team_warps() &&
                    config.block_m % config.slice_rows() == 0 &&
                    registers(config) <= kRegistersOfThread && fits_shared(config, device) &&
                    backward_tiles(config).sends();
  if (!fits) config.teams = 1;
  return config;
}

std::string number(i64 value) { return std::to_string(value); }

template <class KernelConfig>
std::string unfit_tile(const KernelConfig& config) {
  if (config.block_m % 16 == 0 && config.block_n % 16 == 0) return "";
  return "tiles are made of pieces of 16x16: block_m = " + number(config.block_m) +
         " and block_n = " + number(config.block_n) + " must be multiples of 16";
}

template <class KernelConfig>
std::string unfit_resources(const KernelConfig& config, const Device& device) {
  const std::string tile = "a tile of " + number(config.block_m) + "x" + number(config.block_n) +
                           " at head_dim " + number(config.head_dim) + " needs ";
  if (!fits_shared(config, device)) {
    return tile + std::to_string(shared_bytes(config)) +
           " bytes of shared memory, a block has at most " +
           std::to_string(device.shared_memory_per_block_bytes);
  }
  if (const i32 needed = registers(config); needed > kRegistersOfThread) {
    return tile + "about " + number(needed) + " registers a thread, which has at most " +
           number(kRegistersOfThread);
  }
  return "";
}

// Returns the first of `tiles`, rows x keys, that is good enough, else the last, for which unfit()
// may have a reason.
template <class KernelConfig, class Complete, class IsGood>
KernelConfig first_good(KernelConfig config, std::initializer_list<Tiling> tiles,
                        const AskedBlocks& asked, const Complete& complete, const IsGood& is_good) {
  for (const Tiling& tile : tiles) {
    config.block_m = asked.block_m != 0 ? static_cast<i32>(asked.block_m) : tile.block_m;
    config.block_n = asked.block_n != 0 ? static_cast<i32>(asked.block_n) : tile.block_n;
    config = complete(config);
    if (is_good(config)) break;
  }
  return config;
}

}  // namespace

ForwardConfig forward_config_of(const Problem& problem, const Config& config,
                                const Device& device) {
  const ForwardConfig open = {.head_dim = padded_head_dim(problem), .dropout = problem.drops()};
  const AskedBlocks asked = asked_blocks(problem, config);
  const auto first = [&](std::initializer_list<Tiling> tiles) {
    return first_good(
        open, tiles, asked, [&](const ForwardConfig& tile) { return complete(tile, device); },
        [&](const ForwardConfig& tile) {  // a team alone waits for everything
          return unfit(tile, device).empty() && tile.teams > 1 &&
                 cuda::suits_pattern(problem, cuda::tiling_of(tile));
        });
  };
  if (open.head_dim <= 96) return first({{32, 256}, {32, 128}, {32, 64}, {16, 64}, {16, 16}});
  if (open.head_dim <= 128) return first({{32, 160}, {32, 128}, {32, 64}, {16, 64}, {16, 16}});
  if (open.head_dim <= 192) return first({{16, 192}, {16, 128}, {16, 64}, {16, 32}, {16, 16}});
  return first({{16, 128}, {16, 64}, {16, 32}, {16, 16}});
}

BackwardConfig backward_config_of(const Problem& problem, const Config& config,
                                  const Device& device) {
  const BackwardConfig open = {.head_dim = padded_head_dim(problem), .dropout = problem.drops()};
  const AskedBlocks asked = asked_blocks(problem, config);
  const auto first = [&](std::initializer_list<Tiling> tiles) {
    return first_good(
        open, tiles, asked, [&](const BackwardConfig& tile) { return complete(tile, device); },
        [&](const BackwardConfig& tile) {
          return unfit(tile, device).empty() && cuda::suits_pattern(problem, cuda::tiling_of(tile));
        });
  };
  if (open.head_dim <= 64) return first({{64, 128}, {64, 64}, {32, 64}, {64, 32}});
  if (open.head_dim <= 128) {
    return first({{64, 128}, {32, 128}, {64, 64}, {32, 64}, {64, 32}, {16, 128}});
  }
  return first({{32, 64}, {64, 32}, {16, 128}});
}

std::string unfit(const ForwardConfig& config, const Device& device) {
  if (std::string reason = unfit_tile(config); !reason.empty()) return reason;
  return unfit_resources(config, device);
}

std::string unfit(const BackwardConfig& config, const Device& device) {
  if (std::string reason = unfit_tile(config); !reason.empty()) return reason;
  const auto divides = [&](i32 rows, i32 columns) {
    return warp_grid(config.team_warps(), rows, columns).rows > 0;
  };
  const bool divides_scores = config.p_in_registers() || (divides(config.block_n, config.block_m) &&
                                                          divides(config.block_n, config.head_dim));
  if (!divides_scores || !divides(config.block_m, config.head_dim)) {
    return "its " + number(config.team_warps()) + " warps cannot divide a tile of " +
           number(config.block_m) + "x" + number(config.block_n) + " at head_dim " +
           number(config.head_dim) +
           " into pieces of 16x16 for each: take more rows or keys, or multiples of 32";
  }
  return unfit_resources(config, device);
}

std::vector<ConfigsToVerify> configs_to_verify() {
  const auto tile = [](i64 block_m, i64 block_n) {
    return Config{{"block_m", block_m}, {"block_n", block_n}};
  };
  return {{.head_dim = 64,
           .dtype = Dtype::f16,
           .configs = {tile(16, 16),
                       tile(32, 48),
                       tile(64, 80),
                       tile(96, 32),
                       tile(16, 128),
                       tile(256, 16),
                       {{"sram", 16384}}}},
          {.head_dim = 128,
           .dtype = Dtype::bf16,
           .configs = {tile(64, 32), tile(128, 48), tile(64, 48)}},
          {.head_dim = 64,
           .dtype = Dtype::bf16,
           .dropout = 0.2,
           .configs = {tile(64, 96), tile(96, 64)}},
          {.head_dim = 128, .dtype = Dtype::f16, .dropout = 0.2, .configs = {tile(32, 64)}}};
}

}  // namespace attnlab::v1
