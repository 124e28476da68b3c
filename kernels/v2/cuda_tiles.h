// Which tiles v2's kernels take on a GPU, and whether a tile that somebody asks for fits.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// What the config asks for; what it leaves open (0) is what was measured to be fastest for this
// head_dim, of what fits the device (TUNING.md).
ForwardConfig forward_config_of(const Problem& problem, const Config& config, const Device& device);
BackwardConfig backward_config_of(const Problem& problem, const Config& config,
                                  const Device& device);

// Why such a kernel cannot run on this device, in one sentence; empty: it can.
std::string unfit(const ForwardConfig& config, const Device& device);
std::string unfit(const BackwardConfig& config, const Device& device);

// Multiples of 16, wide and tall, powers of two and not, with several numbers of warps and stages.
// Neither pass takes them all: the forward wants 16 rows for each warp, the backward two stages,
// and neither may spill registers.
std::vector<ConfigsToVerify> configs_to_verify();

}  // namespace attnlab::v2
