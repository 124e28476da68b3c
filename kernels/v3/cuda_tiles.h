// Which tiles v3's kernels take on a GPU, and whether a tile that somebody asks for fits.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/implementation.h"
#include "kernels/v3/schedule.h"

namespace attnlab::v3 {

// What the config asks for; what it leaves open (0, or -1 of what is on or off) is a choice by
// head_dim.
ForwardConfig forward_config_of(const Problem& problem, const Config& config);

// Why such a kernel cannot run on this device, in one sentence; empty: it can.
std::string unfit(const ForwardConfig& config, const Device& device);

// The same of the backward.
BackwardConfig backward_config_of(const Problem& problem, const Config& config);
std::string unfit(const BackwardConfig& config, const Device& device);

// One to three consumers, with and without overlap, ping-pong and a producer.
std::vector<ConfigsToVerify> configs_to_verify();

}  // namespace attnlab::v3
