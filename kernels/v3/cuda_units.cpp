#include "kernels/v3/cuda_units.h"

namespace attnlab::v3 {

using cuda::count;
using cuda::flag;

namespace {

// consume() of forward.cuh has a step for each of: an item's first tile or a later one, masked or
// not. All start S = Q K^T. With `overlap` the later ones start O += P V of the tile before, and
// one more follows an item's last step. So it is in consume_e4m3() of forward_e4m3.cuh.
std::vector<WarpgroupProduct> products_of(const ForwardConfig& config) {
  constexpr int kSteps = 4, kLaterSteps = 2;
  const int depth = config.e4m3 ? 32 : 16;
  return {{.name = "S = Q K^T",
           .columns = config.block_n,
           .steps = config.head_dim / depth,
           .places = kSteps,
           .depth = depth},
          {.name = "O += P V",
           .a_in_registers = true,
           .columns = config.head_dim / config.parts_of_pv(),
           .steps = config.block_n / depth,
           .places = config.overlap ? kLaterSteps + 1 : kSteps * config.parts_of_pv(),
           .depth = depth}};
}

// Lists what a step of consume_columns() of backward_columns.cuh starts, masked or not.
std::vector<WarpgroupProduct> products_of_columns(const BackwardConfig& config) {
  constexpr int kSteps = 2;
  const auto of_scores = [&](const char* name) {
    return WarpgroupProduct{.name = name,
                            .columns = config.block_n / config.consumers(),
                            .steps = config.head_dim / 16,
                            .places = kSteps};
  };
  const auto of_slabs = [&](const char* name, int columns, int sum_over) {
    return WarpgroupProduct{.name = name,
                            .columns = columns,
                            .steps = config.own_slabs() * sum_over / 16,
                            .places = kSteps};
  };
  return {of_scores("S = Q K^T"), of_scores("dP = dO V^T"),
          of_slabs("dV^T += dO^T P", config.block_n, config.block_m),
          of_slabs("dK^T += Q^T dS", config.block_n, config.block_m),
          of_slabs("dQ^T = K^T dS^T", config.block_m, config.block_n)};
}

// Lists what a step of consume() of backward.cuh starts, masked or not.
std::vector<WarpgroupProduct> products_of(const BackwardConfig& config) {
  if (config.shares_columns()) return products_of_columns(config);
  constexpr int kSteps = 2;
  const auto of_scores = [&](const char* name) {
    return WarpgroupProduct{
        .name = name, .columns = config.block_m, .steps = config.head_dim / 16, .places = kSteps};
  };
  const auto of_keys = [&](const char* name) {
    return WarpgroupProduct{.name = name,
                            .a_in_registers = true,
                            .columns = config.head_dim,
                            .steps = config.block_m / 16,
                            .places = kSteps};
  };
  return {of_scores("S^T = K Q^T"), of_scores("dP^T = V dO^T"), of_keys("dV += P^T dO"),
          of_keys("dK += dS^T Q"),
          WarpgroupProduct{
              .name = "dQ = dS K", .columns = 64, .steps = config.block_n / 16, .places = kSteps}};
}

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config, bool has_timeline) {
  KernelEntry entry = {.name = "forward",
                       .threads = config.threads(),
                       .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes()),
                       .products = products_of(config)};
  const std::string header = config.e4m3 ? "kernels/v3/forward_e4m3.cuh" : "kernels/v3/forward.cuh";
  const std::string function =
      config.e4m3 ? "v3::forward_e4m3<T, kConfig>" : "v3::forward<T, kConfig>";
  std::vector<std::string> parameters = {
      "v3::ForwardSizes", "v3::ForwardMaps",
      config.e4m3 ? "v3::E4m3Pointers<T>" : "v3::ForwardPointers<T>"};
  if (has_timeline) {
    // SharedTimeline of timeline.cuh takes this: a pointer, and an item for each stage.
    entry.dynamic_shared_bytes += sizeof(void*) + kWorkTileStages * sizeof(u32);
    parameters.emplace_back("v3::TimelinePointer");
  }
  const cuda::ConfigFields fields = fields_of(config);
  return {
      .name = unit_name(has_timeline ? "v3-forward-timeline" : "v3-forward", dtype, fields),
      .source = (has_timeline ? "#define ATTNLAB_TIMELINE\n" : "") +
                cuda::unit_header(header, config.e4m3 ? Dtype::f16 : dtype) +
                config_text("v3::ForwardConfig", fields) +
                cuda::kernel_text(entry, config.blocks, parameters, function),
      .entries = {entry},
      // At head_dim 128 the code for lost rows makes the compiler wait early for some products:
      // slower, not wrong. A launch with a timeline counts only where it is as fast.
      .must_be_clean = !has_timeline && (config.producer || !config.overlap || !config.dropout)};
}

KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config, bool has_timeline) {
  constexpr i32 kWarp = 32;
  // A lane has one key, with fp32 sums of dK and dV.
  const i32 warps_again = ceil_div(config.block_n, kWarp);
  const KernelEntry prepare = {.name = "prepare_rows", .threads = config.row_threads()};
  KernelEntry backward = {.name = "backward",
                          .threads = config.threads(),
                          .dynamic_shared_bytes = static_cast<u64>(backward_tiles(config).bytes()),
                          .products = products_of(config)};
  std::vector<std::string> parameters = {"v3::BackwardSizes", "v3::BackwardMaps",
                                         "v3::BackwardPointers<T>"};
  if (has_timeline) {
    backward.dynamic_shared_bytes += sizeof(void*);  // BackwardTimeline of timeline.cuh
    parameters.emplace_back("v3::TimelinePointer");
  }
  const KernelEntry again = {
      .name = "backward_again",
      .threads = warps_again * kWarp,
      .dynamic_shared_bytes = u64{2} * static_cast<u64>(warps_again * kWarp * config.head_dim) * 4 +
                              (config.deterministic ? sizeof(u32) : 0)};  // of a ticket
  const KernelEntry finish = {
      .name = "finish_rows",
      .threads = config.row_threads(),
      .dynamic_shared_bytes = static_cast<u64>(config.block_m * config.head_dim * 2)};
  const cuda::ConfigFields fields = fields_of(config);
  const std::vector<std::string> rows = {"v3::BackwardSizes", "v3::BackwardPointers<T>"};
  const i32 blocks = 48 * kWarp / config.row_threads();  // 48 warps wait for memory side by side
  return {.name = unit_name(has_timeline ? "v3-backward-timeline" : "v3-backward", dtype, fields),
          .source = (has_timeline ? "#define ATTNLAB_TIMELINE\n" : "") +
                    cuda::unit_header("kernels/v3/backward.cuh", dtype) +
                    config_text("v3::BackwardConfig", fields) +
                    cuda::kernel_text(prepare, blocks, rows, "v3::prepare_rows<T, kConfig>") +
                    cuda::kernel_text(backward, 1, parameters, "v3::backward<T, kConfig>") +
                    cuda::kernel_text(again, 1, rows, "v3::backward_again<T, kConfig>") +
                    cuda::kernel_text(finish, blocks, rows, "v3::finish_rows<T, kConfig>"),
          .entries = {prepare, backward, again, finish},
          .must_be_clean = !has_timeline};
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
          flag("dropout", config.dropout, "-dropout"),
          flag("e4m3", config.e4m3),
          flag("promote", config.promote, "-promote"),
          flag("v_columns", config.v_columns, "-vcolumns")};
}

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  return forward_unit(dtype, config, false);
}

KernelUnit forward_unit_with_timeline(Dtype dtype, const ForwardConfig& config) {
  return forward_unit(dtype, config, true);
}

cuda::ConfigFields fields_of(const BackwardConfig& config) {
  return {count("head_dim", config.head_dim, "-d"),
          count("block_m", config.block_m, "-"),
          count("block_n", config.block_n, "x"),
          cuda::derived("consumers", config.consumers(), ""),
          count("stages", config.stages, "-s"),
          flag("pattern", config.pattern, "-pattern"),
          flag("dropout", config.dropout, "-dropout"),
          flag("deterministic", config.deterministic, "-deterministic")};
}

KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config) {
  return backward_unit(dtype, config, false);
}

KernelUnit backward_unit_with_timeline(Dtype dtype, const BackwardConfig& config) {
  return backward_unit(dtype, config, true);
}

}  // namespace attnlab::v3
