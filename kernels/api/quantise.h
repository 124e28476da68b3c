// Does the laboratory's quantisation of a whole problem, on the CPU.
#pragma once

#include <cstdint>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"

namespace attnlab {

// Return the elements of those tensors of E4m3Inputs that are not like q or k.
std::int64_t elements_v_transposed(const Problem& problem);
std::int64_t elements_scale_q(const Problem& problem);
std::int64_t elements_scale_k(const Problem& problem);
std::int64_t elements_scale_v(const Problem& problem);  // of blocks, or of channels

// Returns where a row (b, head_kv, column) of V^T begins; its first key is key 0 of entry b.
std::int64_t v_transposed_offset(const Problem& problem, std::int64_t b, std::int64_t head_kv,
                                 std::int64_t column);

// E4m3Outputs is the memory that quantise() fills, of the sizes that E4m3Inputs states.
struct E4m3Outputs {
  std::uint8_t* q = nullptr;
  std::uint8_t* k = nullptr;
  std::uint8_t* v = nullptr;
  std::uint8_t* v_transposed = nullptr;
  float* scale_q = nullptr;
  float* scale_k = nullptr;
  float* scale_v = nullptr;
};

// Writes all of `to` from q, k and v (fp32, in the problem's layout), on up to `threads` threads,
// whose number changes no bit. Keys that an entry does not have, past its end under padding, become
// zeros and do not enter amax.
void quantise(const Problem& problem, const float* q, const float* k, const float* v, int threads,
              const E4m3Outputs& to);

}  // namespace attnlab
