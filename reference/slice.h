// One (batch, head) slice of q, k and v where it lies in memory, and what oracle and twin both ask
// of it: who attends to whom, and the two matrix products, in the precision of the asker.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"

namespace attnlab::reference {

// What becomes of one element of P. A dropped one counts in the softmax's sum, a masked one does
// not.
enum class Fate : std::uint8_t { masked, dropped, kept };

// Whether a product takes its factors as they are or their absolute values (a bound of how much
// rounding can gather).
enum class Factors : std::uint8_t { as_they_are, absolute };

class Slice {
 public:
  Slice(const Problem& problem, const Tensors& tensors, std::int64_t batch, std::int64_t head);

  const Problem& problem() const { return problem_; }
  std::int64_t keys() const { return keys_; }
  // Rows that are worked on at a time. The matrices below always have this height, the rows past
  // those asked for being zero, because Eigen orders the sums of a product by its shape: so a row's
  // result never depends on the rows that it is computed with.
  std::int64_t chunk_rows() const { return chunk_rows_; }

  // (rows.size(), keys())
  std::vector<Fate> fates(std::span<const std::int64_t> rows) const;

  // Q K^T of at most chunk_rows() rows, unscaled: (chunk_rows(), keys()).
  template <class Scalar>
  std::vector<Scalar> multiply_qk(std::span<const std::int64_t> rows, Factors factors) const;

  // P V: (chunk_rows(), head_dim), from p (chunk_rows(), keys()).
  template <class Scalar>
  std::vector<Scalar> multiply_pv(const std::vector<Scalar>& p, Factors factors) const;

 private:
  const Problem& problem_;
  const Tensors& tensors_;
  std::int64_t batch_, head_, keys_, chunk_rows_;
};

}  // namespace attnlab::reference
