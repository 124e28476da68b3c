// PyTorch competes under these names; here is also known what it cannot run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/problem.h"

namespace attnlab {

// "torch:eager,flash" -> torch:eager, torch:flash, each once. An item without a prefix has that of
// the item before. Throws UsageError for a name that is none.
std::vector<std::string> parse_peers(std::string_view text);

// Whether a kernel's name is a peer's.
bool is_peer(std::string_view kernel);

// Why the peer cannot run the problem on the device, as far as that is known without asking it;
// empty: it may. Throws what make_block_pattern() throws.
std::string unsupported_by_peer(const std::string& peer, const Problem& problem,
                                const Device& device);

// Returns "flash" of "torch:flash".
std::string_view peer_backend(std::string_view peer);

}  // namespace attnlab
