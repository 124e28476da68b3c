#include "harness/plan/unsupported.h"

#include <fmt/format.h>

#include "kernels/api/registry.h"

namespace attnlab {

std::string no_device(Backend backend) {
  return fmt::format("this machine has no {} device: {}", to_string(backend),
                     why_no_device(backend));
}

std::string why_unsupported(const Implementation& implementation, const Config& config,
                            const Problem& problem, const Device& device) {
  if (device.name.empty()) {
    return no_device(device.backend);
  }
  if (problem.mask.blocks) {
    const std::string reason =
        unsupported_pattern(*problem.mask.blocks, problem.seqlen_q, problem.seqlen_k);
    if (!reason.empty()) return reason;
  }
  if (problem.is_e4m3()) {
    if (!implementation.has_e4m3) {
      return fmt::format("{} has no e4m3 on this backend", implementation.name);
    }
    if (std::string reason = never_in_e4m3(problem); !reason.empty()) return reason;
  }
  const std::string reason = invalid(config, implementation);
  return reason.empty() ? implementation.unsupported(problem, config, device) : reason;
}

}  // namespace attnlab
