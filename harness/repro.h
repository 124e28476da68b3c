// One command that runs one point again.
#pragma once

#include <string>

#include "harness/sweep.h"

namespace attnlab {

// "attnlab run --backend cpu --isa avx2 --threads 2 --kernel v2 --pass fwd ...": every axis of the
// command line, the config and the device, spelled out, so that no default can change its meaning;
// of the protocol what is not the default.
std::string repro_command(const Case& work, const Competitor& competitor, const Device& device,
                          const Protocol& protocol);

}  // namespace attnlab
