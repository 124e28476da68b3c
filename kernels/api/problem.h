// Describes the work in one value. Nobody else carries a shape.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/mask_spec.h"
#include "kernels/shared/shape.h"

namespace attnlab {

enum class Pass : std::uint8_t { fwd, bwd, fwdbwd };
// e4m3: inputs are drawn in fp32 and quantised by the laboratory, as Problem::quantisation says;
// outputs are f16.
enum class Dtype : std::uint8_t { f32, f16, bf16, e4m3 };
enum class Layout : std::uint8_t { bshd, bhsd, packed };
enum class LengthsKind : std::uint8_t { dense, padding, packed };
// ScaleOf says what shares one scale of e4m3: a whole tensor, a head of an entry, kScaleRows of its
// rows, or one of its columns.
enum class ScaleOf : std::uint8_t { tensor, head, block, channel };

const char* to_string(Pass pass);
const char* to_string(Dtype dtype);
const char* to_string(Layout layout);
const char* to_string(LengthsKind kind);
const char* to_string(ScaleOf scale);
std::int64_t size_bytes(Dtype dtype);

// Lengths are those of the batch entries. dense: the lists are empty. padding: keys[b] of the
// seqlen_k keys exist. packed: entry b has queries[b] rows and keys[b] keys.
struct Lengths {
  LengthsKind kind = LengthsKind::dense;
  bool given = false;  // by the user, not drawn from the seed: then they are part of the id
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> keys;
  bool operator==(const Lengths&) const = default;
};

// Quantisation says how q, k and v of an e4m3 problem become e4m3. It is a part of the problem, as
// the layout is: all kernels get the same codes and scales.
struct Quantisation {
  ScaleOf qk = ScaleOf::block;   // of q and k: tensor, head or block
  ScaleOf v = ScaleOf::channel;  // tensor, head, block or channel
  bool rotate = true;            // q and k: random signs of Problem::seed, then Walsh-Hadamard
  bool has_blocks() const { return qk == ScaleOf::block || v == ScaleOf::block; }
  bool operator==(const Quantisation&) const = default;
};

// O = dropout(softmax(mask(softmax_scale * Q K^T))) V, and lse of the masked scaled scores.
// q, o: (batch, num_heads_q, seqlen_q, head_dim); k, v: (batch, num_heads_kv, seqlen_k, head_dim),
// in `layout`; lse: (batch, num_heads_q, seqlen_q), fp32, natural log. Backward: dQ, dK, dV (like
// q, k, v) of the scalar sum(O * dO). Rows of lse past the end of a packed entry belong to nobody.
struct Problem {
  Pass pass = Pass::fwd;
  Dtype dtype = Dtype::f32;
  std::int64_t batch = 1;
  std::int64_t num_heads_q = 1;
  std::int64_t num_heads_kv = 1;
  std::int64_t seqlen_q = 1;
  std::int64_t seqlen_k = 1;
  std::int64_t head_dim = 64;
  MaskSpec mask;
  Lengths lengths;
  double dropout = 0.0;        // in [0, 1)
  std::uint64_t seed = 0;      // of the dropout mask, of lengths that are drawn, of signs
  double softmax_scale = 0.0;  // 0: 1 / sqrt(head_dim)
  Layout layout = Layout::bshd;
  Quantisation quantisation;  // of e4m3, else the default

  bool operator==(const Problem&) const = default;

  bool runs_forward() const { return pass != Pass::bwd; }
  bool runs_backward() const { return pass != Pass::fwd; }
  bool is_e4m3() const { return dtype == Dtype::e4m3; }
  Dtype input_dtype() const { return is_e4m3() ? Dtype::f32 : dtype; }   // of q, k, v, dO
  Dtype output_dtype() const { return is_e4m3() ? Dtype::f16 : dtype; }  // of o, dQ, dK, dV
  bool has_pattern() const { return mask.blocks.has_value(); }
  bool drops() const;  // whether dropout drops anything; a tiny p rounds to nothing

  double scale() const;                        // softmax_scale with its default filled in
  std::int64_t queries(std::int64_t b) const;  // rows of entry b
  std::int64_t keys(std::int64_t b) const;     // keys that exist in entry b

  // Return the elements of q (= o) and of k (= v).
  std::int64_t elements_q() const;
  std::int64_t elements_k() const;
  std::int64_t elements_lse() const { return batch * num_heads_q * seqlen_q; }

  // Counts visible (query, key) pairs of entry b, of one head. The sum over entries and heads is
  // the A of the FLOP counts: forward 4 * A * head_dim, backward 10 * A * head_dim.
  std::int64_t visible_pairs(std::int64_t b, const BlockPattern& blocks) const;

  // Returns a name for people, filters and profilers, like
  // "fwd/f32/b1/hq8/hkv8/sq4096/sk4096/d64/causal/p0/bshd", with "/scale0.3" and, for lengths that
  // were given, "/len5+7" (keys) or "/len5x6+7x7" (queries x keys) at the end. For e4m3 it ends
  // with "/block-channel-rotate": the scales of q and k, of v, and the rotation.
  std::string id() const;
};

// Returns why the sizes cannot be one problem (a zero, heads that do not divide, p >= 1, sizes
// whose product overflows, ...), or empty. Names the field.
std::string invalid(const Problem& problem);

// Returns the plain struct that kernels get.
Shape make_shape(const Problem& problem);

// Returns entry b's mask; `blocks` views the bytes of visible_blocks() and must outlive the result.
Mask make_mask(const Problem& problem, std::int64_t b, const BlockPattern& blocks);

// Writes the lengths: keys of each entry, or queries x keys where they differ, joined by '+'.
std::string to_string(const Lengths& lengths);

// Returns the bytes of the problem's block pattern; empty if it has none.
std::vector<std::uint8_t> make_block_pattern(const Problem& problem);

// Views these bytes (or no pattern).
BlockPattern view_block_pattern(const Problem& problem, const std::uint8_t* bytes);

}  // namespace attnlab
