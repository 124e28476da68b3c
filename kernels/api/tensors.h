// The memory of one problem. A kernel borrows it; the harness owns it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/problem.h"

namespace attnlab {

// Device pointers; null where the pass does not use one. q, k, v, dout are inputs; o, lse, dq, dk,
// dv are outputs (o, lse and `saved` are inputs of Pass::bwd: those that the same
// implementation's forward left).
struct Tensors {
  const void* q = nullptr;     // (batch, num_heads_q, seqlen_q, head_dim), Problem::dtype
  const void* k = nullptr;     // (batch, num_heads_kv, seqlen_k, head_dim)
  const void* v = nullptr;     // like k
  void* o = nullptr;           // like q
  float* lse = nullptr;        // (batch, num_heads_q, seqlen_q); null if it is not written
  const void* dout = nullptr;  // like q
  void* dq = nullptr;          // like q
  void* dk = nullptr;          // like k
  void* dv = nullptr;          // like k

  // Implementation::saved_bytes(): what a forward leaves for its own backward beside o and lse.
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
