#include "kernels/v3/cuda_units.h"

namespace attnlab::v3 {

using cuda::count;
using cuda::flag;

namespace {

// consume() of forward.cuh has a step for each of: an item's first tile or a later one, masked or
// not. All start S = Q K^T. With `overlap` the later ones start O += P V of the tile before, and
// one more follows an item's last step.
std::vector<WarpgroupProduct> products_of(const ForwardConfig& config) {
  constexpr int kSteps = 4, kLaterSteps = 2;
  return {{.name = "S = Q K^T",
           .columns = config.block_n,
           .steps = config.head_dim / 16,
           .places = kSteps},
          {.name = "O += P V",
           .a_in_registers = true,
           .columns = config.head_dim,
           .steps = config.block_n / 16,
           .places = config.overlap ? kLaterSteps + 1 : kSteps}};
}

}  // namespace

cuda::ConfigFields fields_of(const ForwardConfig& config) {
  return {count("head_dim", config.head_dim, "-d"),
          cuda::derived("block_m", config.block_m(), "-"),
          count("consumers", config.consumers),
          count("blocks", config.blocks),
          count("block_n", config.block_n, "x"),
          count("stages", config.stages, "-s"),
          count("q_stages", config.q_stages),
          flag("separate_o", config.separate_o),
          flag("producer", config.producer, "", "-alone"),
          flag("overlap", config.overlap, "-overlap"),
          flag("ping_pong", config.ping_pong, "-pingpong"),
          flag("left", config.left, "-left"),
          flag("pattern", config.pattern, "-pattern"),
          flag("dropout", config.dropout, "-dropout")};
}

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  const KernelEntry entry = {
      .name = "forward",
      .threads = config.threads(),
      .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes()),
      .products = products_of(config)};
  const cuda::ConfigFields fields = fields_of(config);
  return {
      .name = unit_name("v3-forward", dtype, fields),
      .source = cuda::unit_header("kernels/v3/forward.cuh", dtype) +
                config_text("v3::ForwardConfig", fields) +
                cuda::kernel_text(entry, config.blocks,
                                  {"v3::ForwardSizes", "v3::ForwardMaps", "v3::ForwardPointers<T>"},
                                  "v3::forward<T, kConfig>"),
      .entries = {entry},
      .options = {"--device-as-default-execution-space"},  // of lambdas with auto parameters
      // Beside what attends to lost rows the compiler then waits early for some products, at
      // head_dim 128: slower, not wrong.
      .must_be_clean = config.producer || !config.overlap || !config.dropout};
}

}  // namespace attnlab::v3
