#include "harness/plan/peer_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/plan/axis_values.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

constexpr std::string_view kPrefix = "torch:";
struct Peer {
  std::string_view backend;
  std::string_view computes;
  // Its operation needs kernels (on a CPU operators) whose names hold one of these parts.
  std::vector<std::string_view> needed;
};

// Parts of the names of kernels for matmul, scale, mask, softmax, dropout and gradients;
// `scaled_dot_product` is an operator on a CPU.
const std::vector<std::string_view> kOfMatrices = {
    "nvjet_",       "gemm",         "cutlass",           "gemv",
    "splitKreduce", "softmax",      "Softmax",           "SoftMax",
    "MulFunctor",   "masked_fill",  "dropout",           "masked_scale",
    "bernoulli",    "where_kernel", "isneginf",          "and_kernel",
    "matmul",       "bmm",          "aten::mul",         "aten::div",
    "aten::sum",    "sum_functor",  "scaled_dot_product"};

const std::array<Peer, 5> kPeers = {{
    {"eager",
     "matmul, scale, masked_fill, softmax, dropout, matmul in the tensors' type, S and P in "
     "memory; no lse",
     kOfMatrices},
    {"flash",
     "FlashAttention-2: o and lse in every forward; dQ by atomic sums, in no fixed order",
     {"flash_fwd_", "flash_bwd_", "scaled_dot_product"}},
    // Its delta, the sums of dO * O, is a product and a sum of PyTorch's where heads are of f32.
    {"efficient",
     "o, and lse only with gradients, not in a forward timed alone; dQ in an order that it does "
     "not promise",
     {"fmha_cutlass", "MulFunctor", "sum_functor"}},
    // It clears a counter of its own, as v3 does.
    {"cudnn",
     "o, and lse only with gradients, not in a forward timed alone; dQ in an order that it does "
     "not promise",
     {"cudnn_generated_", "cudnn::fusion::compute_dot_do_o", "cudnn::fusion::convert_dq",
      "Memset"}},
    {"math", "16-bit tensors cast to f32, S and P in memory; no lse", kOfMatrices},
}};

// Returns the peer of this name. Of one that only another version of this program has, which
// records may name, nothing is known.
const Peer& find_peer(std::string_view name) {
  static const Peer kUnknown = {.backend = "", .computes = "not known", .needed = {}};
  const auto found = std::ranges::find(kPeers, peer_backend(name), &Peer::backend);
  return found == kPeers.end() ? kUnknown : *found;
}

// visible_keys() > 0, without a look at the blocks behind the first that is visible: of 64k keys
// there are a thousand, for each of as many rows.
bool sees_a_key(const Mask& mask, std::int64_t row) {
  const Range keys = band(mask, row);
  if (mask.blocks.visible == nullptr || keys.empty()) return !keys.empty();
  const std::int64_t width = mask.blocks.block_k;
  for (std::int64_t key = keys.begin; key < keys.end; key = round_up(key + 1, width)) {
    if (block_visible(mask.blocks, row, key)) return true;
  }
  return false;
}

// The first row that sees no key, as "row 3 of batch entry 0"; "" if all see one.
std::string blind_row(const Problem& problem) {
  const std::vector<std::uint8_t> blocks = make_block_pattern(problem);
  const MaskSpec& spec = problem.mask;
  const bool has_band = spec.causal || spec.window;
  // Rows of one row of blocks see the same, where nothing but blocks and padding hides keys.
  const std::int64_t step = has_band ? 1 : spec.blocks ? spec.blocks->block_q : problem.seqlen_q;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const Mask mask = make_mask(problem, b, view_block_pattern(problem, blocks.data()));
    for (std::int64_t row = 0; row < problem.seqlen_q; row += step) {
      if (!sees_a_key(mask, row)) return fmt::format("row {} of batch entry {}", row, b);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> parse_peers(std::string_view text, const std::string& where) {
  std::vector<std::string> known;
  for (const Peer& peer : kPeers) known.push_back(fmt::format("torch:{}", peer.backend));
  std::vector<std::string> peers;
  std::string prefix;
  for (const std::string_view item : split(text, ',')) {
    std::string name(trim(item));
    if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
      prefix = name.substr(0, colon + 1);
    } else {
      name.insert(0, prefix);
    }
    if (std::ranges::find(known, name) == known.end()) {
      throw UsageError(
          fmt::format("{}: there is no peer '{}'{}", where, name, suggestion(name, known)));
    }
    if (std::ranges::find(peers, name) == peers.end()) peers.push_back(name);
  }
  return peers;
}

bool is_peer(std::string_view kernel) { return kernel.starts_with(kPrefix); }

std::string unsupported_by_peer(const std::string& peer, const Problem& problem,
                                const Device& device) {
  const std::string_view backend = peer_backend(peer);
  const bool is_cuda = device.backend == Backend::cuda;
  if (problem.layout == Layout::packed) {
    return "PyTorch's scaled_dot_product_attention takes no packed sequences";
  }
  if (!is_cuda && (backend == "efficient" || backend == "cudnn")) {
    return fmt::format("PyTorch has no {} backend on a CPU", backend);
  }
  if (is_cuda && problem.dtype == Dtype::f32 && (backend == "flash" || backend == "cudnn")) {
    return fmt::format("PyTorch's {} backend takes f16 and bf16 only", backend);
  }
  const MaskSpec& mask = problem.mask;
  if (is_cuda && backend == "flash" && (mask.window || mask.padding || mask.blocks)) {
    return "PyTorch's flash backend takes no mask but a causal one";
  }
  if (const std::string row = blind_row(problem); !row.empty()) {
    return row + " sees no key: PyTorch gives NaN there";
  }
  return "";
}

bool needed_by_peer(std::string_view peer, std::string_view symbol) {
  return std::ranges::any_of(find_peer(peer).needed, [&](std::string_view part) {
    return symbol.find(part) != std::string_view::npos;
  });
}

std::string_view computed_by_peer(std::string_view peer) { return find_peer(peer).computes; }

std::string_view peer_backend(std::string_view peer) { return peer.substr(kPrefix.size()); }

}  // namespace attnlab
