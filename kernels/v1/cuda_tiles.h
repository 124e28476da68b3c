// Which tiles v1's kernels take on a GPU, and whether a tile that somebody asks for fits.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/v1/schedule.h"

namespace attnlab::v1 {

// What the config asks for, by block_m and block_n or by sram (make_tiling(), in whole pieces of 16
// and at most 256); what it leaves open is what was measured to be fastest of what fits the device
// (TUNING.md).
ForwardConfig forward_config_of(const Problem& problem, const Config& config, const Device& device);
BackwardConfig backward_config_of(const Problem& problem, const Config& config,
                                  const Device& device);

// Why such a kernel cannot run on this device, in one sentence; empty: it can.
std::string unfit(const ForwardConfig& config, const Device& device);
std::string unfit(const BackwardConfig& config, const Device& device);

// Multiples of 16, wide and tall, powers of two and not, and one that follows from sram. Neither
// pass takes them all: the backward has eight warps, which must divide each of its products.
std::vector<ConfigsToVerify> configs_to_verify();

}  // namespace attnlab::v1
