#include "kernels/v1/cuda_units.h"

#include <string>

#include "kernels/cuda/unit_text.h"

namespace attnlab::v1 {
namespace {

using cuda::kernel_text;
using cuda::number;
using cuda::truth;

// "v1-forward-f16-d64-64x256-dropout"
template <class KernelConfig>
std::string unit_name(const std::string& direction, Dtype dtype, const KernelConfig& config) {
  return "v1-" + direction + "-" + to_string(dtype) + "-d" + number(config.head_dim) + "-" +
         number(config.block_m) + "x" + number(config.block_n) + (config.dropout ? "-dropout" : "");
}

}  // namespace

KernelUnit forward_unit(Dtype dtype, const ForwardConfig& config) {
  const KernelEntry entry = {
      .name = "forward",
      .threads = config.warps() * 32,
      .dynamic_shared_bytes = static_cast<u64>(forward_tiles(config).bytes())};
  return {.name = unit_name("forward", dtype, config),
          .source =
              cuda::unit_header("kernels/v1/forward.cuh", dtype) +
              "constexpr v1::ForwardConfig kConfig = {.head_dim = " + number(config.head_dim) +
              ", .block_m = " + number(config.block_m) + ", .block_n = " + number(config.block_n) +
              ", .teams = " + number(config.teams) + ", .splits = " + number(config.splits) +
              ", .slice_rows = " + number(config.slice_rows) +
              ", .columns = " + number(config.columns) + ", .keeps_o = " + truth(config.keeps_o) +
              ", .dropout = " + truth(config.dropout) + "};\n" +
              kernel_text(entry, 1,
                          "v1::Workspace workspace, const T* gQ, const T* gK, const T* gV, "
                          "T* gO, float* gLse",
                          "v1::forward<T, kConfig>(params, workspace, gQ, gK, gV, gO, gLse)"),
          .entries = {entry}};
}

KernelUnit backward_unit(Dtype dtype, const BackwardConfig& config) {
  const KernelEntry from_lse = {
      .name = "backward",
      .threads = kBackwardWarps * 32,
      .dynamic_shared_bytes = static_cast<u64>(backward_tiles(config).bytes())};
  KernelEntry from_m_and_l = from_lse;
  from_m_and_l.name = "backward_from_m_and_l";
  const auto text = [](const KernelEntry& entry, bool is_from_m_and_l) {
    return kernel_text(entry, 1,
                       "v1::Workspace workspace, const T* gQ, const T* gK, const T* gV, "
                       "const T* gO, const T* gDO, T* gDQ, T* gDK, T* gDV",
                       "v1::backward<T, kConfig, " + truth(is_from_m_and_l) +
                           ">(params, workspace, gQ, gK, gV, gO, gDO, gDQ, gDK, gDV)");
  };
  return {.name = unit_name("backward", dtype, config),
          .source =
              cuda::unit_header("kernels/v1/backward.cuh", dtype) +
              "constexpr v1::BackwardConfig kConfig = {.head_dim = " + number(config.head_dim) +
              ", .block_m = " + number(config.block_m) + ", .block_n = " + number(config.block_n) +
              ", .teams = " + number(config.teams) + ", .dropout = " + truth(config.dropout) +
              "};\n" + text(from_lse, false) + text(from_m_and_l, true),
          .entries = {from_lse, from_m_and_l}};
}

KernelUnit row_visits_unit() {
  const KernelEntry entry = {.name = "find_visits", .threads = kVisitsWarps * 32};
  return {.name = "v1-row-visits",
          .source = "#include \"kernels/v1/row_visits.cuh\"\nusing namespace attnlab;\n" +
                    kernel_text(entry, 1, "Tiling tiling, v1::RowVisits* visits",
                                "v1::find_visits(params, tiling, visits)"),
          .entries = {entry}};
}

}  // namespace attnlab::v1
