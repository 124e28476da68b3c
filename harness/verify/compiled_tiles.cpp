#include "harness/verify/compiled_tiles.h"

namespace attnlab::verify {

namespace {

// warps and stages: 0: the kernel's own choice.
Config tile(std::int64_t block_m, std::int64_t block_n, std::int64_t warps = 0,
            std::int64_t stages = 0) {
  Config config;
  config.set("block_m", block_m);
  config.set("block_n", block_n);
  if (warps != 0) config.set("warps", warps);
  if (stages != 0) config.set("stages", stages);
  return config;
}

Config tile_of_sram(std::int64_t sram) {
  Config config;
  config.set("sram", sram);
  return config;
}

// Of kernels whose warpgroups have roles, and of them alone.
Config tile_of_roles(std::int64_t consumers, std::int64_t block_n, std::int64_t stages,
                     bool overlap, bool ping_pong, bool producer = true) {
  Config config;
  config.set("consumers", consumers);
  config.set("block_n", block_n);
  config.set("stages", stages);
  config.set("producer", producer ? 1 : 0);
  config.set("overlap", overlap ? 1 : 0);
  config.set("ping_pong", ping_pong ? 1 : 0);
  return config;
}

}  // namespace

bool CompiledTiles::suit(const Problem& problem) const {
  return problem.head_dim == head_dim && problem.dtype == dtype &&
         (problem.dropout > 0.0) == (dropout > 0.0);
}

std::vector<Config> CompiledTiles::of(const Implementation& kernel) const {
  const Config axes = default_config(kernel);
  std::vector<Config> all;
  for (const Config& asked : tiles) {
    if (asked.contains("consumers") && !axes.contains("consumers")) continue;
    Config known;
    for (const auto& [name, value] : asked.values()) {
      if (axes.contains(name)) known.set(name, value);
    }
    if (!known.values().empty()) all.push_back(known);
  }
  return all;
}

// Multiples of 16, wide and tall, powers of two and not. No kernel takes them all: v1's backward
// has eight warps, which must divide each of its products; v2's forward wants 16 rows for each
// warp, its backward two stages, and neither may spill registers; v3 has roles.
const std::vector<CompiledTiles>& compiled_tiles() {
  static const std::vector<CompiledTiles> kAll = {
      {.head_dim = 64,
       .dtype = Dtype::f16,
       .tiles = {tile(16, 16), tile(32, 48, 2, 3), tile(64, 80, 4, 2), tile(96, 32, 2, 2),
                 tile(16, 128, 4), tile(256, 16, 16, 4), tile_of_sram(16384),
                 tile_of_roles(1, 64, 2, true, false), tile_of_roles(2, 96, 3, false, true),
                 tile_of_roles(3, 64, 2, true, true)}},
      {.head_dim = 128,
       .dtype = Dtype::bf16,
       .tiles = {tile(64, 32, 4, 1), tile(128, 48, 8, 3), tile(64, 48, 4, 2),
                 tile_of_roles(1, 96, 2, true, false), tile_of_roles(2, 112, 2, false, false),
                 tile_of_roles(2, 96, 2, true, false, false), tile_of_roles(3, 80, 2, true, true)}},
      {.head_dim = 64,
       .dtype = Dtype::bf16,
       .dropout = 0.2,
       .tiles = {tile(64, 96, 4, 2), tile(96, 64, 4), tile_of_roles(2, 64, 4, true, true),
                 tile_of_roles(1, 80, 2, false, false)}},
      {.head_dim = 128,
       .dtype = Dtype::f16,
       .dropout = 0.2,
       .tiles = {tile(32, 64, 8), tile_of_roles(2, 64, 2, false, true)}},
  };
  return kAll;
}

}  // namespace attnlab::verify
