// States a problem's mask as its user does, in the text form of sweeps, ids and records:
//   none | part[+part...]    part: causal | window:L:R | padding[:MIN] |
//   blocks:PATTERN[:args]:BQxBK
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/api/blocks_spec.h"
#include "kernels/shared/mask.h"

namespace attnlab {

struct WindowSpec {
  std::int64_t left = -1;  // -1: unbounded
  std::int64_t right = -1;
  bool operator==(const WindowSpec&) const = default;
};

// PaddingSpec draws every entry's number of keys from the seed in [minimum, seqlen_k]; -1: seqlen_k
// - 20, the range of FlashAttention's Tables 9 to 21.
struct PaddingSpec {
  std::int64_t minimum = -1;
  bool operator==(const PaddingSpec&) const = default;
};

struct MaskSpec {
  bool causal = false;
  std::optional<WindowSpec> window;
  std::optional<PaddingSpec> padding;
  std::optional<BlocksSpec> blocks;

  bool is_none() const { return !causal && !window && !padding && !blocks; }
  // These bound the band that causal and window leave together (-1: unbounded).
  std::int64_t left() const { return window ? window->left : -1; }
  std::int64_t right() const;
  bool operator==(const MaskSpec&) const = default;
};

// Throws std::invalid_argument with a sentence that names the wrong part and the accepted forms.
MaskSpec parse_mask(std::string_view text);

// Returns the canonical text; parse_mask(to_string(m)) == m.
std::string to_string(const MaskSpec& mask);

// Returns the bytes of a pattern, row-major (ceil(seqlen_q / block_q), ceil(seqlen_k / block_k)).
// Throws std::invalid_argument where unsupported_pattern() gives a reason: an unknown pattern, a
// wrong number of arguments, a named pattern with seqlen_q != seqlen_k, a file that cannot be read
// or has another shape.
std::vector<std::uint8_t> visible_blocks(const BlocksSpec& spec, std::int64_t seqlen_q,
                                         std::int64_t seqlen_k);

// Returns empty if visible_blocks() can be formed, else why not.
std::string unsupported_pattern(const BlocksSpec& spec, std::int64_t seqlen_q,
                                std::int64_t seqlen_k);

}  // namespace attnlab
