// Says where an element of a tensor lies and how its bits are read and rounded. The offsets are
// written out here a second time, from the definition of the layouts, so that a wrong stride in the
// kernels' Shape cannot hide.
#pragma once

#include <cstdint>

#include "kernels/api/problem.h"

namespace attnlab::reference {

enum class Side : std::uint8_t { query, key };  // q, o | k, v

// Returns the index of the first of the head_dim elements of (batch b, head, row). `head` counts in
// the tensor's own heads: num_heads_q or num_heads_kv.
std::int64_t row_offset(const Problem& problem, Side side, std::int64_t b, std::int64_t head,
                        std::int64_t row);

// Returns the index in lse of a row of entry b, query head `head`.
std::int64_t lse_offset(const Problem& problem, std::int64_t b, std::int64_t head,
                        std::int64_t row);

// Returns the K/V head of query head `head`: num_heads_q / num_heads_kv neighbours share one.
std::int64_t kv_head(const Problem& problem, std::int64_t head);

// Reads `count` elements from index `offset` on; every storage type fits fp32 exactly.
void read_elements(Dtype dtype, const void* tensor, std::int64_t offset, std::int64_t count,
                   float* out);

// Products says what matrix products make of their factors before they multiply them: nothing,
// which are values of the storage type, or TF32, fp32 with 10 explicit bits of mantissa. Sums are
// in fp32, but those of e4m3 that stay in the tensor cores (unpromoted), which keep 13 bits.
enum class Products : std::uint8_t { storage, tf32, unpromoted };

// Returns the nearest value of the storage type.
float round_to_storage(Dtype dtype, float value);

// Returns the nearest TF32 value, of two the even one. cvt.rna takes the one away from zero: ties
// are one value in 2^13, their error has the same size, and so has the scale that the twin gives.
float round_to_tf32(float value);

// Return the largest relative error of one rounding to nearest, of numbers that are not subnormal:
// to the storage type, and of a factor of a product.
double unit_roundoff(Dtype dtype);
double unit_roundoff(Dtype dtype, Products products);

// Return the largest error of one rounding of a number up to `size`, likewise.
double rounding_error(Dtype dtype, double size);
double rounding_error(Dtype dtype, Products products, double size);

}  // namespace attnlab::reference
