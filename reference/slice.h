// Slice is one (batch, head) of q, k, v and dO where it lies in memory, and what oracle and twin
// both ask of it: who attends to whom, and the matrix products, in the precision of the asker.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"
#include "reference/mask.h"

namespace attnlab::reference {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

using Indices = std::span<const std::int64_t>;

// Fate says what becomes of one element of P. A dropped one counts in the softmax's sum, a masked
// one does not.
enum class Fate : std::uint8_t { masked, dropped, kept };

// Factors says if a product takes K and V as they are, their absolute values or squares (bounds of
// how much rounding can gather), or rounded to TF32. The caller prepares its other factor.
enum class Factors : std::uint8_t { as_they_are, absolute, squares, tf32 };

class Slice {
 public:
  // `rows` says how many of its rows will be asked for.
  Slice(const Problem& problem, const Tensors& tensors, const Visibility& visibility,
        std::int64_t batch, std::int64_t head, std::int64_t rows);

  const Problem& problem() const { return problem_; }
  Indices all_keys() const { return all_keys_; }
  // Returns how many rows are worked on at a time. All matrices below have this height, the rows
  // past those asked for being masked and zero, because Eigen orders the sums of a product by its
  // shape: so a row's result never depends on which rows it is computed with.
  std::int64_t chunk_rows() const { return chunk_rows_; }

  // Returns (chunk_rows, all keys).
  Matrix<Fate> fates(Indices rows) const;
  bool sees_any(std::int64_t row, Indices keys) const;

  // Reads at most chunk_rows() rows of this head: (chunk_rows, head_dim).
  Matrix<float> read_q(Indices rows) const { return read_rows(tensors_.q, rows); }
  Matrix<float> read_dout(Indices rows) const { return read_rows(tensors_.dout, rows); }

  // Return left K^T and left V^T of some keys; left is (chunk_rows, head_dim): (chunk_rows, keys).
  template <class Scalar>
  Matrix<Scalar> multiply_k_transposed(const Matrix<Scalar>& left, Indices keys,
                                       Factors factors) const {
    return multiply_transposed(left, tensors_.k, keys, factors);
  }
  template <class Scalar>
  Matrix<Scalar> multiply_v_transposed(const Matrix<Scalar>& left, Indices keys,
                                       Factors factors) const {
    return multiply_transposed(left, tensors_.v, keys, factors);
  }

  // Return weights K and weights V over all keys, weights being (chunk_rows, keys): (chunk_rows,
  // head_dim).
  template <class Scalar>
  Matrix<Scalar> multiply_k(const Matrix<Scalar>& weights, Factors factors) const {
    return multiply(weights, tensors_.k, factors);
  }
  template <class Scalar>
  Matrix<Scalar> multiply_v(const Matrix<Scalar>& weights, Factors factors) const {
    return multiply(weights, tensors_.v, factors);
  }

 private:
  Matrix<float> read_rows(const void* tensor, Indices rows) const;
  template <class Scalar>
  Matrix<Scalar> read_keys(const void* tensor, Indices keys, Factors factors) const;
  template <class Scalar>
  Matrix<Scalar> multiply_transposed(const Matrix<Scalar>& left, const void* tensor, Indices keys,
                                     Factors factors) const;
  template <class Scalar>
  Matrix<Scalar> multiply(const Matrix<Scalar>& weights, const void* tensor, Factors factors) const;

  const Problem& problem_;
  const Tensors& tensors_;
  const Visibility& visibility_;
  std::int64_t batch_, head_;
  std::vector<std::int64_t> all_keys_;
  std::int64_t chunk_rows_;
};

// Returns the columns of some keys out of those of all.
template <class Scalar>
Matrix<Scalar> take_columns(const Matrix<Scalar>& all, Indices keys) {
  if (static_cast<Eigen::Index>(keys.size()) == all.cols()) return all;
  Matrix<Scalar> some(all.rows(), static_cast<Eigen::Index>(keys.size()));
  for (Eigen::Index i = 0; i < some.rows(); ++i) {
    for (Eigen::Index j = 0; j < some.cols(); ++j) {
      some(i, j) = all(i, keys[static_cast<std::size_t>(j)]);
    }
  }
  return some;
}

}  // namespace attnlab::reference
