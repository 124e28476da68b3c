#include "kernels/api/problem.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <numbers>
#include <vector>

#include "kernels/shared/dropout.h"

namespace attnlab {

const char* to_string(Pass pass) {
  switch (pass) {
    case Pass::fwd: return "fwd";
    case Pass::bwd: return "bwd";
    case Pass::fwdbwd: return "fwdbwd";
  }
  return "?";
}

const char* to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::f16: return "f16";
    case Dtype::bf16: return "bf16";
    case Dtype::e4m3: return "e4m3";
  }
  return "?";
}

const char* to_string(Layout layout) {
  switch (layout) {
    case Layout::bshd: return "bshd";
    case Layout::bhsd: return "bhsd";
    case Layout::packed: return "packed";
  }
  return "?";
}

const char* to_string(LengthsKind kind) {
  switch (kind) {
    case LengthsKind::dense: return "dense";
    case LengthsKind::padding: return "padding";
    case LengthsKind::packed: return "packed";
  }
  return "?";
}

const char* to_string(ScaleOf scale) {
  switch (scale) {
    case ScaleOf::tensor: return "tensor";
    case ScaleOf::head: return "head";
    case ScaleOf::block: return "block";
    case ScaleOf::channel: return "channel";
  }
  return "?";
}

std::string to_string(const Lengths& lengths) {
  std::string text;
  for (std::size_t b = 0; b < lengths.keys.size(); ++b) {
    if (b > 0) text += '+';
    const std::int64_t keys = lengths.keys[b];
    const std::int64_t queries = b < lengths.queries.size() ? lengths.queries[b] : keys;
    if (queries != keys) text += std::to_string(queries) + "x";
    text += std::to_string(keys);
  }
  return text;
}

std::int64_t size_bytes(Dtype dtype) {
  if (dtype == Dtype::e4m3) return 1;
  return dtype == Dtype::f32 ? 4 : 2;
}

bool Problem::drops() const { return make_dropout(dropout, seed).threshold > 0; }

double Problem::scale() const {
  return softmax_scale != 0.0 ? softmax_scale : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

std::int64_t Problem::queries(std::int64_t b) const {
  return lengths.kind == LengthsKind::packed ? lengths.queries[static_cast<std::size_t>(b)]
                                             : seqlen_q;
}

std::int64_t Problem::keys(std::int64_t b) const {
  return lengths.kind == LengthsKind::dense ? seqlen_k : lengths.keys[static_cast<std::size_t>(b)];
}

namespace {

std::int64_t total_rows(const Problem& problem, std::int64_t seqlen,
                        const std::vector<std::int64_t>& packed_lengths) {
  if (problem.lengths.kind != LengthsKind::packed) return problem.batch * seqlen;
  std::int64_t total = 0;
  for (std::int64_t length : packed_lengths) total += length;
  return total;
}

// Counts the keys before a given one that a row of blocks shows. All of its rows share the sums: to
// visit each block for each row took seconds at 65536 rows, and every estimate of a run's work
// asks.
class KeysBefore {
 public:
  KeysBefore(const BlockPattern& blocks, std::int64_t row_of_blocks)
      : visible_(blocks.visible + row_of_blocks * blocks.blocks_k), width_(blocks.block_k) {
    before_.reserve(static_cast<std::size_t>(blocks.blocks_k) + 1);
    before_.push_back(0);
    for (std::int64_t k = 0; k < blocks.blocks_k; ++k) {
      before_.push_back(before_.back() + (visible_[k] != 0 ? width_ : 0));
    }
  }

  std::int64_t operator()(std::int64_t key) const {
    const std::int64_t block = key / width_;
    const std::int64_t rest = key - block * width_;
    const std::int64_t of_block = rest > 0 && visible_[block] != 0 ? rest : 0;
    return before_[static_cast<std::size_t>(block)] + of_block;
  }

 private:
  const u8* visible_;
  std::int64_t width_;
  std::vector<std::int64_t> before_;
};

}  // namespace

std::int64_t Problem::elements_q() const {
  return total_rows(*this, seqlen_q, lengths.queries) * num_heads_q * head_dim;
}

std::int64_t Problem::elements_k() const {
  return total_rows(*this, seqlen_k, lengths.keys) * num_heads_kv * head_dim;
}

std::int64_t Problem::visible_pairs(std::int64_t b, const BlockPattern& blocks) const {
  const Mask entry_mask = make_mask(*this, b, blocks);
  std::int64_t pairs = 0;
  if (blocks.visible == nullptr) {
    for (std::int64_t r = 0; r < entry_mask.seqlen_q; ++r) pairs += visible_keys(entry_mask, r);
    return pairs;
  }
  for (std::int64_t first = 0; first < entry_mask.seqlen_q; first += blocks.block_q) {
    const KeysBefore keys_before(blocks, first / blocks.block_q);
    const std::int64_t end = std::min(entry_mask.seqlen_q, first + blocks.block_q);
    for (std::int64_t r = first; r < end; ++r) {
      const Range keys = band(entry_mask, r);
      if (!keys.empty()) pairs += keys_before(keys.end) - keys_before(keys.begin);
    }
  }
  return pairs;
}

std::string Problem::id() const {
  char dropout_text[32];
  std::snprintf(dropout_text, sizeof dropout_text, "%g", dropout);
  std::string text = std::string(to_string(pass)) + "/" + to_string(dtype) + "/b" +
                     std::to_string(batch) + "/hq" + std::to_string(num_heads_q) + "/hkv" +
                     std::to_string(num_heads_kv) + "/sq" + std::to_string(seqlen_q) + "/sk" +
                     std::to_string(seqlen_k) + "/d" + std::to_string(head_dim) + "/" +
                     to_string(mask) + "/p" + dropout_text + "/" + to_string(layout);
  if (softmax_scale != 0.0) {
    char digits[40];  // the fewest that tell it from any other double
    text +=
        "/scale" + std::string(digits, std::to_chars(digits, std::end(digits), softmax_scale).ptr);
  }
  if (lengths.given) text += "/len" + to_string(lengths);
  if (is_e4m3()) {
    text += std::string("/") + to_string(quantisation.qk) + "-" + to_string(quantisation.v);
    if (quantisation.rotate) text += "-rotate";
  }
  return text;
}

namespace {

std::string invalid_lengths(const Problem& problem) {
  const Lengths& lengths = problem.lengths;
  const auto in_range = [](const std::vector<std::int64_t>& values, std::int64_t maximum) {
    for (std::int64_t value : values) {
      if (value < 0 || value > maximum) return false;
    }
    return true;
  };
  const std::size_t batch = static_cast<std::size_t>(problem.batch);
  if ((lengths.kind == LengthsKind::packed) != (problem.layout == Layout::packed)) {
    return "lengths: packed lengths and layout packed go together";
  }
  if (problem.mask.padding && lengths.kind != LengthsKind::padding) {
    return "lengths: mask padding needs one number of keys for each batch entry";
  }
  if (lengths.kind == LengthsKind::dense) {
    return lengths.queries.empty() && lengths.keys.empty() ? "" : "lengths: dense takes no lists";
  }
  if (lengths.keys.size() != batch || !in_range(lengths.keys, problem.seqlen_k)) {
    return "lengths: keys needs one value in [0, seqlen_k] for each batch entry";
  }
  const bool has_queries = lengths.kind == LengthsKind::packed;
  if (lengths.queries.size() != (has_queries ? batch : 0) ||
      !in_range(lengths.queries, problem.seqlen_q)) {
    return "lengths: queries needs one value in [0, seqlen_q] for each packed entry, else none";
  }
  return "";
}

std::string invalid_quantisation(const Problem& problem) {
  if (problem.is_e4m3()) {
    return problem.quantisation.qk != ScaleOf::channel
               ? ""
               : "quant must be tensor, head or block: columns of q and k meet in sums";
  }
  return problem.quantisation == Quantisation{} ? ""
                                                : "quant, quant_v and rotate are of dtype e4m3";
}

}  // namespace

std::string invalid(const Problem& problem) {
  const struct {
    const char* name;
    std::int64_t value;
  } sizes[] = {{"batch", problem.batch},
               {"num_heads_q", problem.num_heads_q},
               {"num_heads_kv", problem.num_heads_kv},
               {"seqlen_q", problem.seqlen_q},
               {"seqlen_k", problem.seqlen_k},
               {"head_dim", problem.head_dim}};
  for (const auto& size : sizes) {
    if (size.value < 1) return std::string(size.name) + " must be at least 1";
    if (size.value > (std::int64_t{1} << 31)) return std::string(size.name) + " is above 2^31";
  }
  if (problem.num_heads_q % problem.num_heads_kv != 0) {
    return "num_heads_q = " + std::to_string(problem.num_heads_q) +
           " is not a multiple of num_heads_kv = " + std::to_string(problem.num_heads_kv);
  }
  // Products of elements stay far from the end of int64, so that no byte count can overflow.
  const double heads =
      static_cast<double>(problem.batch) * static_cast<double>(problem.num_heads_q);
  const double rows = static_cast<double>(max(problem.seqlen_q, problem.seqlen_k));
  const double widest = static_cast<double>(max(problem.head_dim, problem.seqlen_k));
  if (heads * rows * widest > 0x1p56) return "batch * heads * seqlen_q * seqlen_k is above 2^56";
  if (!(problem.dropout >= 0.0 && problem.dropout < 1.0)) return "dropout must lie in [0, 1)";
  if (std::lround(65536.0 * problem.dropout) > 65535) return "dropout is above 65535/65536";
  // It and its product with log2(e) must be normal floats.
  const double scale = problem.softmax_scale;
  if (!(scale == 0.0 || (scale >= 1e-37 && scale <= 1e38))) {
    return "softmax_scale must lie in [1e-37, 1e38] (or be 0: 1 / sqrt(head_dim))";
  }
  if (std::string why = invalid_quantisation(problem); !why.empty()) return why;
  return invalid_lengths(problem);
}

Shape make_shape(const Problem& problem) {
  const auto strides = [&problem](std::int64_t seqlen, std::int64_t heads) {
    switch (problem.layout) {
      case Layout::bhsd: return strides_bhsd(seqlen, heads, problem.head_dim);
      case Layout::packed: return strides_packed(heads, problem.head_dim);
      case Layout::bshd: break;
    }
    return strides_bshd(seqlen, heads, problem.head_dim);
  };
  return {.batch = problem.batch,
          .num_heads_q = problem.num_heads_q,
          .num_heads_kv = problem.num_heads_kv,
          .seqlen_q = problem.seqlen_q,
          .seqlen_k = problem.seqlen_k,
          .head_dim = problem.head_dim,
          .softmax_scale = static_cast<float>(problem.scale()),
          .softmax_scale_log2 = static_cast<float>(problem.scale() * std::numbers::log2e),
          .q = strides(problem.seqlen_q, problem.num_heads_q),
          .k = strides(problem.seqlen_k, problem.num_heads_kv)};
}

Mask make_mask(const Problem& problem, std::int64_t b, const BlockPattern& blocks) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  return {.seqlen_q = problem.queries(b),
          .seqlen_k = packed ? problem.keys(b) : problem.seqlen_k,
          .left = problem.mask.left(),
          .right = problem.mask.right(),
          .valid_k = problem.keys(b),
          .blocks = blocks};
}

std::vector<std::uint8_t> make_block_pattern(const Problem& problem) {
  if (!problem.has_pattern()) return {};
  return visible_blocks(*problem.mask.blocks, problem.seqlen_q, problem.seqlen_k);
}

BlockPattern view_block_pattern(const Problem& problem, const std::uint8_t* bytes) {
  if (!problem.has_pattern()) return {};
  const BlocksSpec& spec = *problem.mask.blocks;
  return {.visible = bytes,
          .block_q = spec.block_q,
          .block_k = spec.block_k,
          .blocks_k = ceil_div<std::int64_t>(problem.seqlen_k, spec.block_k)};
}

}  // namespace attnlab
