// v1 and v2 share this: both use mma.sync, and their forward and backward have tiles of their own.
#pragma once

#include <string>

#include "kernels/api/config.h"
#include "kernels/api/implementation.h"
#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/unit_text.h"

namespace attnlab::cuda {

// Implements unsupported() and resolved() of an Implementation. kForward and kBackward return the
// config of a pass for a problem, a config and a device; their namespace has unfit() and
// fields_of() for what they return.
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

  // Fills in the tile of the pass that runs. Where both run, the config stays open: each pass has a
  // tile of its own, and one config cannot name two.
  static Config resolved(const Problem& problem, const Config& config, const Device& device) {
    const auto filled = [&](const auto& kernel) { return with_fields(config, fields_of(kernel)); };
    if (problem.pass == Pass::fwd) return filled(kForward(problem, config, device));
    if (problem.pass == Pass::bwd) return filled(kBackward(problem, config, device));
    return config;
  }
};

}  // namespace attnlab::cuda
