// Chooses the tiles of v2's kernels on a GPU, and says whether a tile that a user asks for fits.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/v2/schedule.h"

namespace attnlab::v2 {

// Returns what the config asks for; where it leaves a value open (0), the one measured to be
// fastest for this head_dim of those that fit the device (TUNING.md).
ForwardConfig forward_config_of(const Problem& problem, const Config& config, const Device& device);
BackwardConfig backward_config_of(const Problem& problem, const Config& config,
                                  const Device& device);

// Returns why such a kernel cannot run on this device, in one sentence, "" if it can.
std::string unfit(const ForwardConfig& config, const Device& device);
std::string unfit(const BackwardConfig& config, const Device& device);

// Returns multiples of 16, wide and tall, powers of two and not, with several numbers of warps and
// stages. Neither pass takes them all: the forward wants 16 rows for each warp, the backward two
// stages, and neither may spill registers.
std::vector<ConfigsToVerify> configs_to_verify();

}  // namespace attnlab::v2
