#include "kernels/v1/cuda_units.h"

#include <string>

namespace attnlab::v1 {
namespace {

using cuda::count;
using cuda::flag;
using cuda::kernel_text;

}  // namespace

cuda::ConfigFields fields_of(const ForwardConfig& config) {
  return {count("head_dim", config.head_dim, "-d"),
          count("block_m", config.block_m, "-"),
          count("block_n", config.block_n, "x"),
          count("teams", config.teams),
          count("splits", config.splits),
          count("slice_rows", config.slice_rows),
          count("columns", config.columns),
          flag("keeps_o", config.keeps_o),
          flag("dropout", config.dropout, "-dropout")};
}

cuda::ConfigFields fields_of(const BackwardConfig& config) {
  return {count("head_dim", config.head_dim, "-d"), count("block_m", config.block_m, "-"),
          count("block_n", config.block_n, "x"), count("teams", config.teams),
          flag("dropout", config.dropout, "-dropout")};
}

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  const KernelEntry entry = {
      .name = "forward",
      .threads = config.warps() * 32,
      .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes())};
  const cuda::ConfigFields fields = fields_of(config);
  return {.name = unit_name("v1-forward", dtype, fields),
          .source = cuda::unit_header("kernels/v1/forward.cuh", dtype) +
                    config_text("v1::ForwardConfig", fields) +
                    kernel_text(entry, 1, {"v1::ForwardArguments<T>"}, "v1::forward<T, kConfig>"),
          .entries = {entry}};
}

KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config) {
  const KernelEntry from_lse = {
      .name = "backward",
      .threads = kBackwardWarps * 32,
      .dynamic_shared_bytes = static_cast<u64>(backward_tiles(config).bytes())};
  KernelEntry from_m_and_l = from_lse;
  from_m_and_l.name = "backward_from_m_and_l";
  const auto text = [](const KernelEntry& entry, const std::string& is_from_m_and_l) {
    return kernel_text(entry, 1, {"v1::BackwardArguments<T>"},
                       "v1::backward<T, kConfig, " + is_from_m_and_l + ">");
  };
  const cuda::ConfigFields fields = fields_of(config);
  return {.name = unit_name("v1-backward", dtype, fields),
          .source = cuda::unit_header("kernels/v1/backward.cuh", dtype) +
                    config_text("v1::BackwardConfig", fields) + text(from_lse, "false") +
                    text(from_m_and_l, "true"),
          .entries = {from_lse, from_m_and_l}};
}

KernelUnit row_visits_unit() {
  const KernelEntry entry = {.name = "find_visits", .threads = kVisitsWarps * 32};
  return {.name = "v1-row-visits",
          .source = "#include \"kernels/v1/row_visits.cuh\"\nusing namespace attnlab;\n" +
                    kernel_text(entry, 1, {"v1::VisitsArguments"}, "v1::find_visits"),
          .entries = {entry}};
}

}  // namespace attnlab::v1
