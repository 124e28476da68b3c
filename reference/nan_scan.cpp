#include "reference/nan_scan.h"

#include <bit>
#include <cstdint>

#include "reference/mask.h"

namespace attnlab::reference {
namespace {

// Returns whether the bits without the sign are above those of infinity.
template <class Bits>
bool is_nan(Bits bits, Bits magnitude, Bits infinity) {
  return static_cast<Bits>(bits & magnitude) > infinity;
}

template <class Bits>
std::int64_t count_nan(const Bits* bits, std::int64_t count, Bits infinity) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) found += is_nan(bits[i], kMagnitude, infinity) ? 1 : 0;
  return found;
}

std::int64_t count_nan(Dtype dtype, const void* tensor, std::int64_t offset, std::int64_t count) {
  if (dtype == Dtype::f32) {
    return count_nan(static_cast<const std::uint32_t*>(tensor) + offset, count,
                     std::uint32_t{0x7F800000});
  }
  return count_nan(static_cast<const std::uint16_t*>(tensor) + offset, count,
                   static_cast<std::uint16_t>(dtype == Dtype::f16 ? 0x7C00 : 0x7F80));
}

// Scan counts the elements that were looked at, and the first of those that are NaN.
struct Scan {
  std::int64_t elements = 0, found = 0;
  std::int64_t batch = 0, head = 0, row = 0, column = 0;

  void add(Dtype dtype, const void* tensor, std::int64_t offset, std::int64_t count, std::int64_t b,
           std::int64_t h, std::int64_t r) {
    elements += count;
    const std::int64_t here = count_nan(dtype, tensor, offset, count);
    if (here > 0 && found == 0) {
      batch = b;
      head = h;
      row = r;
      column = 0;
      while (count_nan(dtype, tensor, offset + column, 1) == 0) ++column;
    }
    found += here;
  }
  std::string message(const std::string& name) const {
    if (found == 0) return "";
    return name + ": " + std::to_string(found) + " of " + std::to_string(elements) +
           " elements are NaN, the first at batch " + std::to_string(batch) + " head " +
           std::to_string(head) + " row " + std::to_string(row) + " column " +
           std::to_string(column);
  }
};

}  // namespace

std::string find_nan(const Problem& problem, const std::string& name, Side side,
                     const void* tensor) {
  const bool query = side == Side::query;
  const std::int64_t heads = query ? problem.num_heads_q : problem.num_heads_kv;
  Scan scan;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t rows = query ? rows_in_memory(problem, b) : keys_in_memory(problem, b);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t r = 0; r < rows; ++r) {
        scan.add(problem.output_dtype(), tensor, row_offset(problem, side, b, h, r),
                 problem.head_dim, b, h, r);
      }
    }
  }
  return scan.message(name);
}

std::string find_nan_in_lse(const Problem& problem, const float* lse) {
  Scan scan;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t rows = rows_in_memory(problem, b);
    for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
      for (std::int64_t r = 0; r < rows; ++r) {
        scan.add(Dtype::f32, lse, lse_offset(problem, b, h, r), 1, b, h, r);
      }
    }
  }
  return scan.message("lse");
}

}  // namespace attnlab::reference
