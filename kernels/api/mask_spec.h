// The mask of a problem as its user states it, and the text form that sweeps, ids and records use:
//   none | part[+part...]    part: causal | window:L:R | padding[:MIN] |
//   blocks:PATTERN[:args]:BQxBK
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/shared/mask.h"

namespace attnlab {

struct WindowSpec {
  std::int64_t left = -1;  // -1: unbounded
  std::int64_t right = -1;
  bool operator==(const WindowSpec&) const = default;
};

// Every entry's number of keys, drawn from the seed in [minimum, seqlen_k]; -1: seqlen_k - 20, the
// range of FlashAttention's Tables 9 to 21.
struct PaddingSpec {
  std::int64_t minimum = -1;
  bool operator==(const PaddingSpec&) const = default;
};

struct BlocksSpec {
  std::string pattern;
  std::vector<std::int64_t> arguments;
  int block_q = 0;
  int block_k = 0;
  bool operator==(const BlocksSpec&) const = default;
};

struct MaskSpec {
  bool causal = false;
  std::optional<WindowSpec> window;
  std::optional<PaddingSpec> padding;
  std::optional<BlocksSpec> blocks;

  bool is_none() const { return !causal && !window && !padding && !blocks; }
  // Bounds of the band that causal and window leave together (-1: unbounded).
  std::int64_t left() const { return window ? window->left : -1; }
  std::int64_t right() const;
  bool operator==(const MaskSpec&) const = default;
};

// Throws std::invalid_argument with a sentence that names the wrong part and the accepted forms.
MaskSpec parse_mask(std::string_view text);

// The canonical text; parse_mask(to_string(m)) == m.
std::string to_string(const MaskSpec& mask);

// The visible blocks of a named pattern, row-major (ceil(seqlen_q / block_q), ceil(seqlen_k /
// block_k)). butterfly: i == j or i xor j is a power of two. Throws std::invalid_argument for an
// unknown pattern or where seqlen_q != seqlen_k.
std::vector<std::uint8_t> visible_blocks(const BlocksSpec& spec, std::int64_t seqlen_q,
                                         std::int64_t seqlen_k);

// Empty if visible_blocks() can be formed, else why not.
std::string unsupported_pattern(const BlocksSpec& spec, std::int64_t seqlen_q,
                                std::int64_t seqlen_k);

}  // namespace attnlab
