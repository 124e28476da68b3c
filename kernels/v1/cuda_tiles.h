// Chooses the tiles of v1's kernels on a GPU, and says whether a tile that a user asks for fits.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// Returns the tile that the config asks for, by block_m and block_n or by sram (make_tiling(), in
// multiples of 16 and at most 256); where it is left open, the one measured to be fastest of those
// that fit the device (TUNING.md).
ForwardConfig forward_config_of(const Problem& problem, const Config& config, const Device& device);
BackwardConfig backward_config_of(const Problem& problem, const Config& config,
                                  const Device& device);

// Returns why such a kernel cannot run on this device, in one sentence, "" if it can.
std::string unfit(const ForwardConfig& config, const Device& device);
std::string unfit(const BackwardConfig& config, const Device& device);

// Returns multiples of 16, wide and tall, powers of two and not, and one by sram. Neither pass
// takes them all: the backward has eight warps, which must divide each of its products.
std::vector<ConfigsToVerify> configs_to_verify();

}  // namespace attnlab::v1
