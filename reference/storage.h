// Where an element of a tensor lies and how its bits are read and rounded. The offsets are written
// out here a second time, from the definition of the layouts, so that a wrong stride in the
// kernels' Shape cannot hide.
#pragma once

#include <cstdint>

#include "kernels/api/problem.h"

namespace attnlab::reference {

enum class Side : std::uint8_t { query, key };  // q, o | k, v

// Index of the first of the head_dim elements of (batch b, head, row). `head` counts in the
// tensor's own heads: num_heads_q or num_heads_kv.
std::int64_t row_offset(const Problem& problem, Side side, std::int64_t b, std::int64_t head,
                        std::int64_t row);

// Index in lse of a row of entry b, query head `head`.
std::int64_t lse_offset(const Problem& problem, std::int64_t b, std::int64_t head,
                        std::int64_t row);

// The K/V head that query head `head` reads: num_heads_q / num_heads_kv neighbours share one.
std::int64_t kv_head(const Problem& problem, std::int64_t head);

// Reads `count` elements from index `offset` on; every storage type fits fp32 exactly.
void read_elements(Dtype dtype, const void* tensor, std::int64_t offset, std::int64_t count,
                   float* out);

// What matrix products make of their factors before they multiply them: nothing, which are values
// of the storage type, or TF32, fp32 with 10 explicit bits of mantissa. Sums are in fp32, but those
// of e4m3 where they stay in the tensor cores (unpromoted), which keep 13 bits of them.
enum class Products : std::uint8_t { storage, tf32, unpromoted };

// The nearest value of the storage type.
float round_to_storage(Dtype dtype, float value);

// The nearest TF32 value, of two the even one. cvt.rna takes the one away from zero: ties are one
// value in 2^13 and their error is the same size, so the scale that the twin's errors give is too.
float round_to_tf32(float value);

// Largest relative error of one rounding to nearest, of numbers that are not subnormal: to the
// storage type, and of a factor of a product.
double unit_roundoff(Dtype dtype);
double unit_roundoff(Dtype dtype, Products products);

// Largest error of one rounding of a number up to `size`, likewise.
double rounding_error(Dtype dtype, double size);
double rounding_error(Dtype dtype, Products products, double size);

}  // namespace attnlab::reference
