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

// The nearest value of the storage type.
float round_to_storage(Dtype dtype, float value);

// Largest relative error of one rounding to nearest, of numbers that are not subnormal.
double unit_roundoff(Dtype dtype);

// Largest error of one rounding of a number up to `size`.
double rounding_error(Dtype dtype, double size);

}  // namespace attnlab::reference
