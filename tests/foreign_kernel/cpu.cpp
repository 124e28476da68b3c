#include "tests/foreign_kernel/cpu.h"

#include <iterator>

#include "kernels/v2/cpu.h"

namespace attnlab::foreign {
namespace {

constexpr std::int64_t kTriedFolds[] = {1, 3};

constexpr ConfigAxis kAxes[] = {
    {"folds", "16 keys of a tile, doubled so often", 2, 0, 5, kTriedFolds},
    {"block_shift", "what is added to 64 rows of a tile", 0, -60, 60},
    {"in_line", "1: a backward sums dQ in a fixed order", 0, 0, 1, {}, AxisRole::fixed_order},
};

Config of_v2(const Config& config) {
  return {{"block_m", 64 + config.get("block_shift")},
          {"block_n", std::int64_t{16} << config.get("folds")},
          {"deterministic", config.get("in_line")}};
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  return v2::kCpu.unsupported(problem, of_v2(config), device);
}
std::uint64_t workspace_bytes(const Problem& problem, const Config& config, const Device& device) {
  return v2::kCpu.workspace_bytes(problem, of_v2(config), device);
}
std::uint64_t saved_bytes(const Problem& problem, const Config& config) {
  return v2::kCpu.saved_bytes(problem, of_v2(config));
}
PreparedKernel* prepare(const Problem& problem, const Config& config, const Device& device) {
  return v2::kCpu.prepare(problem, of_v2(config), device);
}
void launch(PreparedKernel* prepared, const Tensors& tensors, void* stream) {
  v2::kCpu.launch(prepared, tensors, stream);
}
void release(PreparedKernel* prepared) { v2::kCpu.release(prepared); }
Traffic traffic(const Problem& problem, const Config& config) {
  return v2::kCpu.traffic(problem, of_v2(config));
}

}  // namespace

constexpr Implementation kCpu = {
    .api_version = kApiVersion,
    .name = "foreign",
    .backend = Backend::cpu,
    .summary = "v2 under axes that nothing else names",
    .axes = kAxes,
    .num_axes = static_cast<int>(std::size(kAxes)),
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .prepare = prepare,
    .launch = launch,
    .release = release,
    .traffic = traffic,
};

}  // namespace attnlab::foreign
