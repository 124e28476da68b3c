// Chooses the tiles of v3's kernels on a GPU, and says whether a tile that a user asks for fits.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// Returns what the config asks for; a value that it leaves open (0, or -1 for a switch) is chosen
// by head_dim.
ForwardConfig forward_config_of(const Problem& problem, const Config& config);

// Returns why such a kernel cannot run on this device, in one sentence, "" if it can.
std::string unfit(const ForwardConfig& config, const Device& device);

// These two say it of the backward.
BackwardConfig backward_config_of(const Problem& problem, const Config& config);
std::string unfit(const BackwardConfig& config, const Device& device);

// Returns one to three consumers, with and without overlap, ping-pong and a producer, and of e4m3
// with and without promotion.
std::vector<ConfigsToVerify> configs_to_verify();

}  // namespace attnlab::v3
