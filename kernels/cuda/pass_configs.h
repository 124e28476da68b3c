// What kernels on mma.sync share whose forward and backward have tiles of their own (v1, v2).
#pragma once

#include <string>

#include "kernels/api/config.h"
#include "kernels/api/implementation.h"
#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/unit_text.h"

namespace attnlab::cuda {

// Answers for an Implementation by its config of each pass: kForward and kBackward make it of
// problem, config and device. Beside them its namespace has unfit() and fields_of().
template <const Implementation& kKernel, auto kForward, auto kBackward>
struct PassConfigs {
  static std::string unsupported(const Problem& problem, const Config& config,
                                 const Device& device) {
    std::string reason = invalid(config, kKernel);
    if (reason.empty()) reason = unsupported_by_mma_sync(problem, device);
    if (reason.empty() && problem.runs_forward()) {
      reason = unfit(kForward(problem, config, device), device);
    }
    if (reason.empty() && problem.runs_backward()) {
      reason = unfit(kBackward(problem, config, device), device);
    }
    return reason;
  }

  // Of both passes in one, each has its own tile, which one config cannot name.
  static Config resolved(const Problem& problem, const Config& config, const Device& device) {
    const auto filled = [&](const auto& kernel) { return with_fields(config, fields_of(kernel)); };
    if (problem.pass == Pass::fwd) return filled(kForward(problem, config, device));
    if (problem.pass == Pass::bwd) return filled(kBackward(problem, config, device));
    return config;
  }
};

}  // namespace attnlab::cuda
