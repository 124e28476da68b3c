#include "kernels/api/mask_spec.h"

#include <charconv>
#include <stdexcept>

#include "kernels/api/text.h"
#include "kernels/shared/base.h"

namespace attnlab {
namespace {

constexpr const char* kForms =
    "a mask is none, or parts joined by '+': causal, window:LEFT:RIGHT (-1 is unbounded), "
    "padding[:MIN_KEYS], blocks:PATTERN[:ARGS]:BQxBK";

[[noreturn]] void fail(std::string_view part, const std::string& why) {
  throw std::invalid_argument("mask '" + std::string(part) + "': " + why + "; " + kForms);
}

std::int64_t parse_integer(std::string_view part, std::string_view text, std::int64_t minimum) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
    fail(part, "'" + std::string(text) + "' is not a whole number");
  }
  if (value < minimum || value > (std::int64_t{1} << 40)) {
    fail(part, "'" + std::string(text) + "' is out of range");
  }
  return value;
}

BlocksSpec parse_blocks(std::string_view part, const std::vector<std::string_view>& fields) {
  if (fields.size() < 3) fail(part, "needs a pattern and a block size");
  BlocksSpec blocks;
  blocks.pattern = fields[1];
  if (blocks.pattern.empty()) fail(part, "the pattern's name is missing");
  for (std::size_t i = 2; i + 1 < fields.size(); ++i) {
    blocks.arguments.push_back(parse_integer(part, fields[i], 0));
  }
  const auto sizes = split(fields.back(), 'x');
  if (sizes.size() != 2) fail(part, "the last field is the block size, like 128x128");
  constexpr std::int64_t kLargestBlock = 1 << 20;
  const std::int64_t block_q = parse_integer(part, sizes[0], 1);
  const std::int64_t block_k = parse_integer(part, sizes[1], 1);
  if (block_q > kLargestBlock || block_k > kLargestBlock) fail(part, "the block size is too large");
  blocks.block_q = static_cast<int>(block_q);
  blocks.block_k = static_cast<int>(block_k);
  return blocks;
}

}  // namespace

std::int64_t MaskSpec::right() const {
  const std::int64_t bound = window ? window->right : -1;
  if (!causal) return bound;
  return 0;  // the tighter of 0 and any window's right bound, which is -1 or >= 0
}

MaskSpec parse_mask(std::string_view text) {
  MaskSpec mask;
  if (text == "none") return mask;
  for (std::string_view part : split(text, '+')) {
    const auto fields = split(part, ':');
    if (fields[0] == "causal" && fields.size() == 1) {
      if (mask.causal) fail(part, "is given twice");
      mask.causal = true;
    } else if (fields[0] == "window" && fields.size() == 3) {
      if (mask.window) fail(part, "is given twice");
      mask.window = {.left = parse_integer(part, fields[1], -1),
                     .right = parse_integer(part, fields[2], -1)};
    } else if (fields[0] == "padding" && fields.size() <= 2) {
      if (mask.padding) fail(part, "is given twice");
      mask.padding.emplace();
      if (fields.size() == 2) mask.padding->minimum = parse_integer(part, fields[1], 0);
    } else if (fields[0] == "blocks") {
      if (mask.blocks) fail(part, "is given twice");
      mask.blocks = parse_blocks(part, fields);
    } else {
      fail(part, "is not a mask");
    }
  }
  return mask;
}

std::string to_string(const MaskSpec& mask) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "+") + part; };
  if (mask.causal) add("causal");
  if (mask.window) {
    add("window:" + std::to_string(mask.window->left) + ":" + std::to_string(mask.window->right));
  }
  if (mask.padding) {
    const std::int64_t minimum = mask.padding->minimum;
    add(minimum < 0 ? "padding" : "padding:" + std::to_string(minimum));
  }
  if (mask.blocks) {
    std::string part = "blocks:" + mask.blocks->pattern;
    for (std::int64_t argument : mask.blocks->arguments) part += ":" + std::to_string(argument);
    part += ":" + std::to_string(mask.blocks->block_q) + "x" + std::to_string(mask.blocks->block_k);
    add(part);
  }
  return text.empty() ? "none" : text;
}

std::string unsupported_pattern(const BlocksSpec& spec, std::int64_t seqlen_q,
                                std::int64_t seqlen_k) {
  if (spec.pattern != "butterfly") {
    return "block pattern '" + spec.pattern + "' does not exist yet; there is: butterfly";
  }
  if (!spec.arguments.empty()) return "block pattern 'butterfly' takes no arguments";
  if (seqlen_q != seqlen_k) {
    return "block pattern '" + spec.pattern + "' needs seqlen_q = seqlen_k";
  }
  return "";
}

std::vector<std::uint8_t> visible_blocks(const BlocksSpec& spec, std::int64_t seqlen_q,
                                         std::int64_t seqlen_k) {
  if (const std::string reason = unsupported_pattern(spec, seqlen_q, seqlen_k); !reason.empty()) {
    throw std::invalid_argument(reason);
  }
  const std::int64_t blocks_q = ceil_div<std::int64_t>(seqlen_q, spec.block_q);
  const std::int64_t blocks_k = ceil_div<std::int64_t>(seqlen_k, spec.block_k);
  std::vector<std::uint8_t> visible(static_cast<std::size_t>(blocks_q * blocks_k));
  for (std::int64_t i = 0; i < blocks_q; ++i) {
    for (std::int64_t j = 0; j < blocks_k; ++j) {
      const std::int64_t difference = i ^ j;
      const bool at_most_one_bit = (difference & (difference - 1)) == 0;  // 0 or a power of two
      visible[static_cast<std::size_t>(i * blocks_k + j)] = at_most_one_bit ? 1 : 0;
    }
  }
  return visible;
}

}  // namespace attnlab
