#include "harness/plan/peer_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/plan/axis_values.h"
#include "harness/plan/unsupported.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

constexpr std::string_view kTorch = "torch:";
constexpr std::string_view kCudnn = "cudnn";
constexpr std::string_view kFa4 = "fa4";
constexpr std::string_view kPython = "py:";

struct Peer {
  std::string_view name;
  std::string_view computes;
  // Its operation needs kernels (on a CPU operators) whose names hold one of these parts.
  std::vector<std::string_view> needed;
};

// These are parts of the names of kernels for matmul, scale, mask, softmax, dropout and gradients;
// `scaled_dot_product` is an operator on a CPU.
const std::vector<std::string_view> kOfMatrices = {
    "nvjet_",       "gemm",         "cutlass",           "gemv",
    "splitKreduce", "softmax",      "Softmax",           "SoftMax",
    "MulFunctor",   "masked_fill",  "dropout",           "masked_scale",
    "bernoulli",    "where_kernel", "isneginf",          "and_kernel",
    "matmul",       "bmm",          "aten::mul",         "aten::div",
    "aten::sum",    "sum_functor",  "scaled_dot_product"};

// cuDNN clears a counter of its own, as v3 does: so Memset is needed. Where heads are grouped, its
// backward sums dK and dV of the query heads that share one: fmha_reduce_head, once for each.
const std::vector<std::string_view> kOfCudnn = {
    "cudnn_generated_", "cudnn::fusion::compute_dot_do_o", "cudnn::fusion::convert_dq",
    "cudnn::fusion::fmha_reduce_head", "Memset"};

const std::array<Peer, 7> kPeers = {{
    {"torch:eager",
     "matmul, scale, masked_fill, softmax, dropout, matmul in the tensors' type, S and P in "
     "memory; no lse",
     kOfMatrices},
    {"torch:flash",
     "FlashAttention-2: o and lse in every forward; dQ by atomic sums, in no fixed order",
     {"flash_fwd_", "flash_bwd_", "scaled_dot_product"}},
    {"torch:math", "16-bit tensors cast to f32, S and P in memory; no lse", kOfMatrices},
    // Its delta, the sums of dO * O, is a product and a sum of PyTorch's where heads are of f32.
    {"torch:efficient",
     "o, and lse only with gradients, not in a forward timed alone; dQ in an order that it does "
     "not promise",
     {"fmha_cutlass", "MulFunctor", "sum_functor"}},
    {"torch:cudnn",
     "o, and lse only with gradients, not in a forward timed alone; dQ in an order that it does "
     "not promise",
     kOfCudnn},
    {kCudnn,
     "o, and lse where it is verified and with gradients, not in a forward timed alone; dQ in an "
     "order that it does not promise",
     kOfCudnn},
    {kFa4,
     "o, and lse where it is verified and with gradients, not in a forward timed alone; dQ by "
     "atomic sums, in no fixed order",
     {"FlashAttention", "flash_attn"}},
}};

// Nobody knows what a function needs, so these parts name what it could do without.
constexpr std::array<std::string_view, 9> kOfMoves = {
    "copy_kernel", "CatArrayBatchedCopy", "FillFunctor", "Memcpy",     "Memset",
    "aten::copy_", "aten::cat",           "aten::fill_", "aten::zero_"};

constexpr std::string_view kOfFunctions =
    "a Python function; o, lse where it returns one, gradients by PyTorch's autograd";

bool holds_one_of(std::string_view symbol, const auto& parts) {
  return std::ranges::any_of(
      parts, [&](std::string_view part) { return symbol.find(part) != std::string_view::npos; });
}

// Returns the peer of this name. Records may name one of another version of this program: then
// nothing is known of it.
const Peer& find_peer(std::string_view name) {
  static const Peer kUnknown = {.name = "", .computes = "not known", .needed = {}};
  const auto found = std::ranges::find(kPeers, name, &Peer::name);
  return found == kPeers.end() ? kUnknown : *found;
}

bool is_function(std::string_view peer) { return peer.starts_with(kPython); }

// Returns whether it is py:FILE:FUNCTION.
bool names_a_function(std::string_view name) {
  const PeerName parts = split_peer(name);
  return is_function(name) && parts.library.size() > kPython.size() && !parts.backend.empty();
}

// Returns visible_keys() > 0, without a look at the blocks behind the first that is visible: 64k
// keys have a thousand blocks, and each of 64k rows asks.
bool sees_a_key(const Mask& mask, std::int64_t row) {
  const Range keys = band(mask, row);
  if (mask.blocks.visible == nullptr || keys.empty()) return !keys.empty();
  const std::int64_t width = mask.blocks.block_k;
  for (std::int64_t key = keys.begin; key < keys.end; key = round_up(key + 1, width)) {
    if (block_visible(mask.blocks, row, key)) return true;
  }
  return false;
}

// Returns the first row that sees no key, as "row 3 of batch entry 0"; "" if all see one.
std::string blind_row(const Problem& problem) {
  const std::vector<std::uint8_t> blocks = make_block_pattern(problem);
  const MaskSpec& spec = problem.mask;
  const bool has_band = spec.causal || spec.window;
  // Where only blocks and padding hide keys, all rows of a row of blocks see the same: one will do.
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

std::vector<std::string> known_peers() {
  std::vector<std::string> names;
  for (const Peer& peer : kPeers) names.emplace_back(peer.name);
  return names;
}

std::vector<std::string> parse_peers(std::string_view text, const std::string& where) {
  const std::vector<std::string> known = known_peers();
  std::vector<std::string> peers;
  std::string prefix;
  for (const std::string_view item : split(text, ',')) {
    std::string name(trim(item));
    if (is_function(name)) {
      if (!names_a_function(name)) {
        throw UsageError(fmt::format("{}: '{}' is no peer: say py:FILE.py:FUNCTION", where, name));
      }
      prefix.clear();
    } else if (const std::size_t colon = name.find(':'); colon != std::string::npos) {
      prefix = name.substr(0, colon + 1);
    } else if (std::ranges::find(known, prefix + name) != known.end()) {
      if (!prefix.empty() && std::ranges::find(known, name) != known.end()) {
        throw UsageError(fmt::format(
            "{0}: behind {1}... '{2}' may be {1}{2} or {2}: say {1}{2}, or say {2} first", where,
            prefix, name));
      }
      name.insert(0, prefix);
    } else if (std::ranges::find(known, name) != known.end()) {
      prefix.clear();
    } else {
      name.insert(0, prefix);
    }
    if (!is_function(name) && std::ranges::find(known, name) == known.end()) {
      throw UsageError(
          fmt::format("{}: there is no peer '{}'{}", where, name, suggestion(name, known)));
    }
    if (std::ranges::find(peers, name) == peers.end()) peers.push_back(name);
  }
  return peers;
}

void check_peer_files(const std::vector<std::string>& peers, const std::string& where) {
  for (const std::string& peer : peers) {
    if (!is_function(peer)) continue;
    const std::string file = split_peer(peer).library.substr(kPython.size());
    if (std::error_code error; !std::filesystem::is_regular_file(file, error)) {
      throw UsageError(fmt::format("{}: there is no file '{}' (of {})", where, file, peer));
    }
  }
}

PeerName split_peer(std::string_view peer) {
  const std::size_t first = peer.find(':');
  if (first == std::string_view::npos) return {.library = std::string(peer), .backend = ""};
  const std::size_t last = peer.rfind(':');
  if (!is_function(peer) || last == first) {
    return {.library = std::string(peer.substr(0, first)),
            .backend = std::string(peer.substr(first + 1))};
  }
  return {.library = std::string(peer.substr(0, last)),
          .backend = std::string(peer.substr(last + 1))};
}

std::vector<std::pair<std::string, std::string>> peer_libraries() {
  return {{"torch", "PyTorch"}, {"cudnn", "cuDNN"}, {"fa4", "FlashAttention-4"}};
}

bool is_peer(std::string_view kernel) {
  return kernel.starts_with(kTorch) || kernel == kCudnn || kernel == kFa4 || is_function(kernel);
}

namespace {

std::string unsupported_by_torch(const std::string& backend, const Problem& problem, bool is_cuda) {
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

// Covers cuDNN by its frontend, and FlashAttention-4.
std::string unsupported_by_library(const std::string& name, const Problem& problem, bool is_cuda) {
  if (!is_cuda) return name + " runs on a GPU only";
  if (problem.dtype == Dtype::f32) return name + " takes f16 and bf16 only";
  if (problem.mask.blocks) return name + " is asked for no block pattern";
  if (problem.dropout > 0.0) return name + " is asked for no dropout";
  return "";
}

// A function gets one scale for each K/V head of an entry, as FlashAttention-3 takes them.
std::string unsupported_in_e4m3(const std::string& peer, const Problem& problem) {
  if (peer == kCudnn) {
    return "cudnn is given no e4m3: on Hopper cuDNN's FP8 attention writes o in FP8 alone";
  }
  if (!is_function(peer)) return peer + " is given no e4m3: only functions of py:FILE.py are";
  if (std::string reason = never_in_e4m3(problem); !reason.empty()) return reason;
  const ScaleOf of_qk = problem.quantisation.qk, of_v = problem.quantisation.v;
  const auto is_finer = [](ScaleOf scale) {
    return scale != ScaleOf::tensor && scale != ScaleOf::head;
  };
  if (is_finer(of_qk) || is_finer(of_v)) {
    return fmt::format(
        "peers take e4m3 with a scale for each head or one for all, not quant {} with quant_v {}: "
        "take quant and quant_v of tensor and head",
        to_string(of_qk), to_string(of_v));
  }
  if (of_qk == ScaleOf::head && problem.num_heads_q != problem.num_heads_kv) {
    return fmt::format(
        "peers take one scale of Q for each K/V head, and with quant head the {} query heads that "
        "share one have their own: take quant tensor",
        problem.num_heads_q / problem.num_heads_kv);
  }
  return "";
}

}  // namespace

std::string unsupported_by_peer(const std::string& peer, const Problem& problem,
                                const Device& device) {
  if (problem.is_e4m3()) return unsupported_in_e4m3(peer, problem);
  if (is_function(peer)) return "";
  if (problem.layout == Layout::packed && peer != kFa4) {
    return peer + " is given no packed sequences";
  }
  const bool is_cuda = device.backend == Backend::cuda;
  if (!peer.starts_with(kTorch)) return unsupported_by_library(peer, problem, is_cuda);
  return unsupported_by_torch(split_peer(peer).backend, problem, is_cuda);
}

bool needed_by_peer(std::string_view peer, std::string_view symbol) {
  if (is_function(peer)) return !holds_one_of(symbol, kOfMoves);
  return holds_one_of(symbol, find_peer(peer).needed);
}

std::string_view computed_by_peer(std::string_view peer) {
  return is_function(peer) ? kOfFunctions : find_peer(peer).computes;
}

}  // namespace attnlab
