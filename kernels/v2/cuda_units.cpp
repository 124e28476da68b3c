#include "kernels/v2/cuda_units.h"

namespace attnlab::v2 {
namespace {

using cuda::count;
using cuda::flag;
using cuda::kernel_text;

// Returns the blocks of the kernel that clears sums: together they have enough warps to wait for
// memory side by side, and every architecture holds as many at once.
i32 streaming_blocks(const BackwardConfig& config) { return max(1, 48 / config.warps); }

}  // namespace

cuda::ConfigFields fields_of(const ForwardConfig& config) {
  return {count("head_dim", config.head_dim, "-d"),   count("block_m", config.block_m, "-"),
          count("block_n", config.block_n, "x"),      count("warps", config.warps, "-w"),
          count("stages", config.stages, "-s"),       flag("keeps_q", config.keeps_q),
          flag("dropout", config.dropout, "-dropout")};
}

cuda::ConfigFields fields_of(const BackwardConfig& config) {
  return {count("head_dim", config.head_dim, "-d"),   count("block_m", config.block_m, "-"),
          count("block_n", config.block_n, "x"),      count("warps", config.warps, "-w"),
          count("stages", config.stages, "-s"),       flag("p_in_registers", config.p_in_registers),
          flag("dropout", config.dropout, "-dropout")};
}

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  const KernelEntry entry = {
      .name = "forward",
      .threads = config.warps * 32,
      .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes())};
  const cuda::ConfigFields fields = fields_of(config);
  return {.name = unit_name("v2-forward", dtype, fields),
          .source = cuda::unit_header("kernels/v2/forward.cuh", dtype) +
                    config_text("v2::ForwardConfig", fields) +
                    kernel_text(entry, config.blocks, {"v2::ForwardArguments<T>"},
                                "v2::forward<T, kConfig>"),
          .entries = {entry}};
}

KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config) {
  const BackwardTiles tiles = backward_tiles(config);
  const int threads = config.warps * 32;
  const KernelEntry prepare = {.name = "prepare_rows", .threads = threads};
  const KernelEntry from_lse = {.name = "backward",
                                .threads = threads,
                                .dynamic_shared_bytes = static_cast<u64>(tiles.bytes())};
  KernelEntry from_saved = from_lse;
  from_saved.name = "backward_from_saved";
  const KernelEntry finish = {.name = "finish_rows",
                              .threads = threads,
                              .dynamic_shared_bytes = static_cast<u64>(tiles.q.bytes())};
  const cuda::ConfigFields fields = fields_of(config);
  return {
      .name = unit_name("v2-backward", dtype, fields),
      .source = cuda::unit_header("kernels/v2/backward.cuh", dtype) +
                config_text("v2::BackwardConfig", fields) +
                kernel_text(prepare, streaming_blocks(config), {"v2::PrepareArguments<T>"},
                            "v2::prepare_rows<T, kConfig>") +
                kernel_text(from_lse, config.blocks, {"v2::BackwardArguments<T>"},
                            "v2::backward<T, kConfig>") +
                kernel_text(from_saved, 1, {"v2::BackwardArguments<T>"},
                            "v2::backward_from_saved<T, kConfig>") +
                kernel_text(finish, 1, {"v2::FinishArguments<T>"}, "v2::finish_rows<T, kConfig>"),
      .entries = {prepare, from_lse, from_saved, finish}};
}

}  // namespace attnlab::v2
