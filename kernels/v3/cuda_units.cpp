#include "kernels/v3/cuda_units.h"

#include <string>

#include "kernels/cuda/unit_text.h"

namespace attnlab::v3 {
namespace {

using cuda::number;
using cuda::truth;

// "v3-forward-f16-d128-128x128-s2-overlap-pingpong"
std::string unit_name(Dtype dtype, const ForwardConfig& config) {
  std::string name = std::string("v3-forward-") + to_string(dtype) + "-d" +
                     number(config.head_dim) + "-" + number(config.block_m()) + "x" +
                     number(config.block_n) + "-s" + number(config.stages);
  if (!config.producer) name += "-alone";
  if (config.overlap) name += "-overlap";
  if (config.ping_pong) name += "-pingpong";
  if (config.left) name += "-left";
  if (config.pattern) name += "-pattern";
  if (config.dropout) name += "-dropout";
  return name;
}

}  // namespace

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  const KernelEntry entry = {
      .name = "forward",
      .threads = config.threads(),
      .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes())};
  return {
      .name = unit_name(dtype, config),
      .source =
          cuda::unit_header("kernels/v3/forward.cuh", dtype) +
          "constexpr v3::ForwardConfig kConfig = {.head_dim = " + number(config.head_dim) +
          ", .consumers = " + number(config.consumers) + ", .blocks = " + number(config.blocks) +
          ", .block_n = " + number(config.block_n) + ", .stages = " + number(config.stages) +
          ", .q_stages = " + number(config.q_stages) + ", .own_o = " + truth(config.own_o) +
          ", .producer = " + truth(config.producer) + ", .overlap = " + truth(config.overlap) +
          ", .ping_pong = " + truth(config.ping_pong) + ", .left = " + truth(config.left) +
          ", .pattern = " + truth(config.pattern) + ", .dropout = " + truth(config.dropout) +
          "};\n" +
          cuda::kernel_text(
              entry, config.blocks,
              "WorkGrid grid, const __grid_constant__ v3::ForwardMaps maps, "
              "const TileEntry* entries, u32* next_item, const T* gQ, const T* gK, const T* gV, "
              "T* gO, float* gLse",
              "v3::forward<T, kConfig>(params, grid, maps, entries, next_item, gQ, gK, gV, gO, "
              "gLse)"),
      .entries = {entry},
      .options = {"--device-as-default-execution-space"},  // of lambdas with auto parameters
      // Beside what attends to lost rows the compiler then waits early for some products, at
      // head_dim 128: slower, not wrong.
      .must_be_clean = config.producer || !config.overlap || !config.dropout};
}

}  // namespace attnlab::v3
