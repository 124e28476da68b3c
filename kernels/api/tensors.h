// Tensors is the memory of one problem. A kernel borrows it; the harness owns it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/problem.h"

namespace attnlab {

// E4m3Inputs holds q, k and v of an e4m3 problem as Problem::quantisation makes them of Tensors::q,
// k and v; null in all other problems. value = code * scale. What is coarser than a block repeats
// its scale, so that kernels know one form; rows past the end of an entry have the scale 1.
struct E4m3Inputs {
  const std::uint8_t* q = nullptr;             // like Tensors::q, rotated
  const std::uint8_t* k = nullptr;             // like Tensors::k, rotated
  const std::uint8_t* v = nullptr;             // like Tensors::v: the drop-in form
  const std::uint8_t* v_transposed = nullptr;  // the same codes, see kernels/shared/quantise.h
  const float* scale_q = nullptr;              // (batch, num_heads_q, ceil(seqlen_q / kScaleRows))
  const float* scale_k = nullptr;              // (batch, num_heads_kv, ceil(seqlen_k / kScaleRows))
  const float* scale_v = nullptr;              // like scale_k; of channels: (.., num_heads_kv, d)
};

// Tensors holds device pointers; null where the pass does not use one. q, k, v, dout are inputs; o,
// lse, dq, dk, dv are outputs (o, lse and `saved` are inputs of Pass::bwd: those that the same
// implementation's forward left).
struct Tensors {
  const void* q = nullptr;     // (batch, num_heads_q, seqlen_q, head_dim), input_dtype()
  const void* k = nullptr;     // (batch, num_heads_kv, seqlen_k, head_dim)
  const void* v = nullptr;     // like k
  void* o = nullptr;           // like q, output_dtype()
  float* lse = nullptr;        // (batch, num_heads_q, seqlen_q); null if it is not written
  const void* dout = nullptr;  // like q
  void* dq = nullptr;          // like o
  void* dk = nullptr;          // like k, output_dtype()
  void* dv = nullptr;          // like k, output_dtype()
  E4m3Inputs e4m3;

  // A forward leaves this for its own backward beside o and lse (Implementation::saved_bytes()).
  // Pass::fwd writes it unless it is null, Pass::bwd reads it, Pass::fwdbwd does both.
  void* saved = nullptr;  // aligned to 256 bytes

  const std::int32_t* keys = nullptr;           // (batch), with padding
  const std::int32_t* cu_seqlens_q = nullptr;   // (batch + 1), packed
  const std::int32_t* cu_seqlens_k = nullptr;   // (batch + 1), packed
  const std::uint8_t* block_pattern = nullptr;  // visible_blocks() of the problem

  void* workspace = nullptr;  // aligned to 256 bytes
  std::uint64_t workspace_bytes = 0;
};

}  // namespace attnlab
