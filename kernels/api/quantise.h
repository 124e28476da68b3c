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

// Calls visit(name, member of E4m3Inputs, member of E4m3Outputs, elements) for each of their
// tensors.
template <class Visit>
void for_each_of_e4m3(const Problem& problem, const Visit& visit) {
  visit("e4m3 q", &E4m3Inputs::q, &E4m3Outputs::q, problem.elements_q());
  visit("e4m3 k", &E4m3Inputs::k, &E4m3Outputs::k, problem.elements_k());
  visit("e4m3 v", &E4m3Inputs::v, &E4m3Outputs::v, problem.elements_k());
  visit("e4m3 v_transposed", &E4m3Inputs::v_transposed, &E4m3Outputs::v_transposed,
        elements_v_transposed(problem));
  visit("scale_q", &E4m3Inputs::scale_q, &E4m3Outputs::scale_q, elements_scale_q(problem));
  visit("scale_k", &E4m3Inputs::scale_k, &E4m3Outputs::scale_k, elements_scale_k(problem));
  visit("scale_v", &E4m3Inputs::scale_v, &E4m3Outputs::scale_v, elements_scale_v(problem));
}

// Writes all of `to` from q, k and v (fp32, in the problem's layout), on up to `threads` threads,
// whose number changes no bit. Keys that an entry does not have, past its end under padding, become
// zeros and do not enter amax.
void quantise(const Problem& problem, const float* q, const float* k, const float* v, int threads,
              const E4m3Outputs& to);

}  // namespace attnlab
