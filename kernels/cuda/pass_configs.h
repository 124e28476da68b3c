// v1 and v2 share this: both use mma.sync, and their forward and backward have tiles of their own.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/compiler.h"
#include "kernels/api/config.h"
#include "kernels/api/implementation.h"
#include "kernels/cuda/mma_sync.h"
#include "kernels/cuda/tile_classes.h"
#include "kernels/cuda/unit_text.h"

namespace attnlab::cuda {

// These implement unsupported() and resolved() of an Implementation. `forward` and `backward`
// return the config of a pass for a problem, a config and a device; the namespace of what they
// return has unfit() and fields_of() for it.
template <class Forward, class Backward>
std::string unsupported_by_passes(const Implementation& kernel, const Problem& problem,
                                  const Config& config, const Device& device,
                                  const Forward& forward, const Backward& backward) {
  std::string reason = invalid(config, kernel);
  if (reason.empty()) reason = unsupported_by_mma_sync(problem, device);
  if (reason.empty() && problem.runs_forward()) {
    reason = unfit(forward(problem, config, device), device);
  }
  if (reason.empty() && problem.runs_backward()) {
    reason = unfit(backward(problem, config, device), device);
  }
  return reason;
}

// Returns the units of the passes that the problem runs, and of what looks up its block pattern.
// The namespace of the configs has forward_unit() and backward_unit().
template <class Forward, class Backward>
std::vector<KernelUnit> units_of_passes(const Problem& problem, const Config& config,
                                        const Device& device, const Forward& forward,
                                        const Backward& backward) {
  std::vector<KernelUnit> units;
  if (problem.runs_forward()) {
    units.push_back(forward_unit(problem.dtype, forward(problem, config, device)));
  }
  if (problem.runs_backward()) {
    units.push_back(backward_unit(problem.dtype, backward(problem, config, device)));
  }
  if (problem.has_pattern()) units.push_back(tile_classes_unit());
  return units;
}

// Fills in the tile of the pass that runs. Where both run, the config stays open: each pass has a
// tile of its own, and one config cannot name two.
template <class Forward, class Backward>
Config resolved_of_pass(const Problem& problem, const Config& config, const Device& device,
                        const Forward& forward, const Backward& backward) {
  const auto filled = [&](const auto& tile) { return with_fields(config, fields_of(tile)); };
  if (problem.pass == Pass::fwd) return filled(forward(problem, config, device));
  if (problem.pass == Pass::bwd) return filled(backward(problem, config, device));
  return config;
}

}  // namespace attnlab::cuda
