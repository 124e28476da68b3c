// PyTorch competes under these names; here is also known what it cannot run, and which kernels its
// backends need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/problem.h"

namespace attnlab {

// "torch:eager,flash" -> torch:eager, torch:flash, each once. An item without a prefix has that of
// the item before. Throws UsageError, led by `where`, for a name that is none.
std::vector<std::string> parse_peers(std::string_view text, const std::string& where);

// Whether a kernel's name is a peer's.
bool is_peer(std::string_view kernel);

// Why the peer cannot run the problem on the device, as far as that is known without asking it;
// empty: it may. Throws what make_block_pattern() throws.
std::string unsupported_by_peer(const std::string& peer, const Problem& problem,
                                const Device& device);

// Whether the peer's operation needs a kernel (or, on a CPU, an operator) of this name. What it
// does not need is a copy, cast or fill that brings tensors into a layout or type of its own: a
// launch that ran it took longer for it.
bool needed_by_peer(std::string_view peer, std::string_view symbol);

// Returns, as a part of a sentence, what the peer computes where peers differ: whether it writes
// lse, in which order it sums dQ, in which types.
std::string_view computed_by_peer(std::string_view peer);

// Returns "flash" of "torch:flash".
std::string_view peer_backend(std::string_view peer);

}  // namespace attnlab
