// Defines kernels that compute nothing, for tests that meet kernels only through the registry.
#pragma once

#include <string>

#include "kernels/api/registry.h"

namespace attnlab::fake {

inline std::string only_f32_forward(const Problem& problem, const Config&, const Device&) {
  if (problem.pass != Pass::fwd) return "no backward";
  return problem.dtype == Dtype::f32 ? "" : "f32 only";
}
inline std::uint64_t no_workspace(const Problem&, const Config&, const Device&) { return 0; }
inline std::uint64_t no_saved(const Problem&, const Config&) { return 0; }
inline PreparedKernel* prepare(const Problem&, const Config&, const Device&) { return nullptr; }
inline void launch(PreparedKernel*, const Tensors&, void*) {}
inline void release(PreparedKernel*) {}
inline Traffic traffic(const Problem&, const Config&) { return {}; }

inline constexpr ConfigAxis kBlocks[] = {{"block_m", "query rows", 64, 16, 256},
                                         {"block_n", "keys", 32, 16, 256},
                                         {"stages", "tiles in flight", 2, 1, 4}};

inline constexpr Implementation make(const char* name, Backend backend, bool has_blocks) {
  return {.api_version = kApiVersion,
          .name = name,
          .backend = backend,
          .summary = "computes nothing",
          .axes = has_blocks ? kBlocks : nullptr,
          .num_axes = has_blocks ? 3 : 0,
          .unsupported = only_f32_forward,
          .workspace_bytes = no_workspace,
          .saved_bytes = no_saved,
          .prepare = prepare,
          .launch = launch,
          .release = release,
          .traffic = traffic};
}

inline constexpr Implementation kNaive = make("naive", Backend::cpu, false);
inline constexpr Implementation kTiled = make("v2", Backend::cpu, true);
inline constexpr Implementation kOwn = make("own", Backend::cuda, false);

// This kernel's axis of a known role has a name that nobody else knows.
inline constexpr ConfigAxis kCoarse[] = {
    {"coarse", "1: products in TF32", 0, 0, 1, {}, AxisRole::tf32_products}};
inline constexpr Implementation kWithTf32 = {.api_version = kApiVersion,
                                             .name = "coarse",
                                             .backend = Backend::cuda,
                                             .axes = kCoarse,
                                             .num_axes = 1};

inline Registry registry() {
  static constexpr const Implementation* kAll[] = {&kNaive, &kTiled, &kOwn};
  return Registry(kAll);
}

inline Device cpu() { return {.backend = Backend::cpu, .name = "fake", .memory_bytes = 1 << 30}; }

}  // namespace attnlab::fake
