#include "reference/storage.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/shared/convert.h"

namespace attnlab::reference {

std::int64_t row_offset(const Problem& problem, Side side, std::int64_t b, std::int64_t head,
                        std::int64_t row) {
  const bool query = side == Side::query;
  const std::int64_t heads = query ? problem.num_heads_q : problem.num_heads_kv;
  const std::int64_t seqlen = query ? problem.seqlen_q : problem.seqlen_k;
  if (problem.layout == Layout::bhsd) {
    return ((b * heads + head) * seqlen + row) * problem.head_dim;
  }
  std::int64_t first_row = b * seqlen;  // of the entry, where rows lie outside heads
  if (problem.layout == Layout::packed) {
    const auto& lengths = query ? problem.lengths.queries : problem.lengths.keys;
    first_row = 0;
    for (std::int64_t i = 0; i < b; ++i) first_row += lengths[static_cast<std::size_t>(i)];
  }
  return ((first_row + row) * heads + head) * problem.head_dim;
}

std::int64_t lse_offset(const Problem& problem, std::int64_t b, std::int64_t head,
                        std::int64_t row) {
  return (b * problem.num_heads_q + head) * problem.seqlen_q + row;
}

std::int64_t kv_head(const Problem& problem, std::int64_t head) {
  const std::int64_t sharing = problem.num_heads_q / problem.num_heads_kv;
  return head / sharing;
}

void read_elements(Dtype dtype, const void* tensor, std::int64_t offset, std::int64_t count,
                   float* out) {
  if (dtype == Dtype::f32) {
    std::copy_n(static_cast<const float*>(tensor) + offset, count, out);
    return;
  }
  const std::uint16_t* bits = static_cast<const std::uint16_t*>(tensor) + offset;
  if (dtype == Dtype::f16) {
    std::transform(bits, bits + count, out, [](std::uint16_t x) { return f32_from_f16(x); });
  } else {
    std::transform(bits, bits + count, out, [](std::uint16_t x) { return f32_from_bf16(x); });
  }
}

float round_to_storage(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::f32: return value;
    case Dtype::f16: return f32_from_f16(f16_from_f32(value));
    case Dtype::bf16: return f32_from_bf16(bf16_from_f32(value));
    case Dtype::e4m3: return f32_from_e4m3(e4m3_from_f32(value));
  }
  return value;
}

float round_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  constexpr std::uint32_t kDropped = 0x1FFF;  // of 23 bits of mantissa the last 13
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t odd = (bits >> 13) & 1;
  return std::bit_cast<float>((bits + kDropped / 2 + odd) & ~kDropped);
}

double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 0x1p-24;
    case Dtype::f16: return 0x1p-11;
    case Dtype::bf16: return 0x1p-8;
    case Dtype::e4m3: return 0x1p-4;
  }
  return 0.0;
}

double unit_roundoff(Dtype dtype, Products products) {
  return products == Products::tf32 ? 0x1p-11 : unit_roundoff(dtype);
}

double rounding_error(Dtype dtype, Products products, double size) {
  if (products != Products::tf32) return rounding_error(dtype, size);
  return unit_roundoff(dtype, products) * size;
}

double rounding_error(Dtype dtype, double size) {
  double half_subnormal = 0x1p-134;  // f32 has less
  if (dtype == Dtype::f16) half_subnormal = 0x1p-25;
  if (dtype == Dtype::e4m3) half_subnormal = 0x1p-18;  // of P, which is shifted by 2^8
  return std::min(size, std::max(unit_roundoff(dtype) * size, half_subnormal));
}

}  // namespace attnlab::reference
