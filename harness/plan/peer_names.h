// Lists the names under which attention of other libraries competes, and knows what it cannot run
// and which kernels it needs:
//
//   torch:eager, torch:flash, torch:math, torch:efficient, torch:cudnn    PyTorch's
//   cudnn                                                                 cuDNN's, by its frontend
//   fa4                                                                   FlashAttention-4
//   py:FILE.py:FUNCTION                                                   anybody's
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/api/device.h"
#include "kernels/api/problem.h"

namespace attnlab {

// Reads "torch:eager,flash,fa4" as torch:eager, torch:flash, fa4, each once. An item without a
// prefix has that of the item before, or is a name itself. Throws UsageError, led by `where`, for a
// name that is none, and for one that could be either.
std::vector<std::string> parse_peers(std::string_view text, const std::string& where);

// Throws UsageError, led by `where`, where a peer's Python file is not there.
void check_peer_files(const std::vector<std::string>& peers, const std::string& where);

// Returns whether a kernel's name is a peer's.
bool is_peer(std::string_view kernel);

// Returns why the peer cannot run the problem on the device, as far as that is known without asking
// it; "" if it may. Throws what make_block_pattern() throws.
std::string unsupported_by_peer(const std::string& peer, const Problem& problem,
                                const Device& device);

// Returns whether the peer's operation needs a kernel (or, on a CPU, an operator) of this name.
// It does not need a copy, cast or fill that brings tensors into a layout or type of its own: a
// launch that ran one took longer for it.
bool needed_by_peer(std::string_view peer, std::string_view symbol);

// Returns, as a part of a sentence, what the peer computes where peers differ: whether it writes
// lse, in which order it sums dQ, in which types.
std::string_view computed_by_peer(std::string_view peer);

// Returns the names of peers that need no file.
std::vector<std::string> known_peers();

// Splits a peer's name: those of one library share a process.
struct PeerName {
  std::string library;  // torch, cudnn, fa4, or py:FILE.py
  std::string backend;  // flash, or FUNCTION; "": the library has one
};
PeerName split_peer(std::string_view peer);

// Returns the libraries of peers that need no file, with what people call them.
std::vector<std::pair<std::string, std::string>> peer_libraries();

}  // namespace attnlab
