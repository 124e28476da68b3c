#include "kernels/v2/cuda_units.h"

#include <string>

#include "kernels/cuda/backend.h"

namespace attnlab::v2 {
namespace {

std::string number(i64 value) { return std::to_string(value); }
std::string truth(bool value) { return value ? "true" : "false"; }

// "v2-forward-f16-d64-128x64-w4-s2-dropout"
template <class KernelConfig>
std::string unit_name(const std::string& direction, Dtype dtype, const KernelConfig& config) {
  return "v2-" + direction + "-" + to_string(dtype) + "-d" + number(config.head_dim) + "-" +
         number(config.block_m) + "x" + number(config.block_n) + "-w" + number(config.warps) +
         "-s" + number(config.stages) + (config.dropout ? "-dropout" : "");
}

std::string header(const std::string& file, Dtype dtype) {
  return "#include \"kernels/v2/" + file +
         "\"\nusing namespace attnlab;\nusing T = " + cuda::storage_type(dtype) + ";\n";
}

// A kernel of a unit: how many of its blocks a multiprocessor shall hold, what it is called and
// takes, and the call that does the work.
std::string kernel(const KernelEntry& entry, i32 blocks, const std::string& parameters,
                   const std::string& call) {
  return "extern \"C\" __global__ void __launch_bounds__(" + number(entry.threads) + ", " +
         number(blocks) + ")\n" + entry.name +
         "(const __grid_constant__ Params params, const __grid_constant__ " + parameters +
         ") {\n  " + call + ";\n}\n";
}

}  // namespace

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  const KernelEntry entry = {
      .name = "forward",
      .threads = config.warps * 32,
      .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes())};
  return {.name = unit_name("forward", dtype, config),
          .source =
              header("forward.cuh", dtype) + "constexpr v2::ForwardConfig kConfig = {.head_dim = " +
              number(config.head_dim) + ", .block_m = " + number(config.block_m) +
              ", .block_n = " + number(config.block_n) + ", .warps = " + number(config.warps) +
              ", .stages = " + number(config.stages) + ", .keeps_q = " + truth(config.keeps_q) +
              ", .dropout = " + truth(config.dropout) + "};\n" +
              kernel(entry, config.blocks,
                     "Grid grid, const TileClass* classes, const T* gQ, const T* gK, "
                     "const T* gV, T* gO, float* gLse",
                     "v2::forward<T, kConfig>(params, grid, classes, gQ, gK, gV, gO, gLse)"),
          .entries = {entry}};
}

KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config) {
  const BackwardTiles tiles = backward_tiles(config);
  const int threads = config.warps * 32;
  const KernelEntry prepare = {.name = "prepare_rows", .threads = threads};
  const KernelEntry main = {.name = "backward",
                            .threads = threads,
                            .dynamic_shared_bytes = static_cast<u64>(tiles.bytes())};
  const KernelEntry finish = {.name = "finish_rows",
                              .threads = threads,
                              .dynamic_shared_bytes = static_cast<u64>(tiles.q.bytes())};
  return {
      .name = unit_name("backward", dtype, config),
      .source =
          header("backward.cuh", dtype) + "constexpr v2::BackwardConfig kConfig = {.head_dim = " +
          number(config.head_dim) + ", .block_m = " + number(config.block_m) +
          ", .block_n = " + number(config.block_n) + ", .warps = " + number(config.warps) +
          ", .stages = " + number(config.stages) + ", .keeps_p = " + truth(config.keeps_p) +
          ", .dropout = " + truth(config.dropout) + "};\n" +
          kernel(prepare, 1,
                 "Grid grid, const __grid_constant__ v2::BackwardWorkspace workspace, const T* gO, "
                 "const T* gDO",
                 "v2::prepare_rows<T, kConfig>(params, grid, workspace, gO, gDO)") +
          kernel(main, config.blocks,
                 "Grid grid, const __grid_constant__ v2::BackwardWorkspace workspace, const T* gQ, "
                 "const T* gK, const T* gV, const T* gDO, const float* gLse, T* gDK, T* gDV",
                 "v2::backward<T, kConfig>(params, grid, workspace, gQ, gK, gV, gDO, gLse, gDK, "
                 "gDV)") +
          kernel(finish, 1,
                 "Grid grid, const __grid_constant__ v2::BackwardWorkspace workspace, T* gDQ",
                 "v2::finish_rows<T, kConfig>(params, grid, workspace, gDQ)"),
      .entries = {prepare, main, finish}};
}

KernelUnit tile_classes_unit() {
  const KernelEntry entry = {.name = "classify_tiles", .threads = kClassifyThreads};
  return {.name = "v2-tile-classes",
          .source = "#include \"kernels/v2/tile_classes.cuh\"\nusing namespace attnlab;\n" +
                    kernel(entry, 1,
                           "Tiling tiling, v2::TileOrder order, TileClass* classes, "
                           "i32* turn_after",
                           "v2::classify_tiles(params, tiling, order, classes, turn_after)"),
          .entries = {entry}};
}

}  // namespace attnlab::v2
