#include "reference/slice.h"

#include <algorithm>
#include <numeric>

#include "reference/dropout.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

// This many keys are converted, and elements of P held, at a time: a few MB each at any length.
constexpr std::int64_t kKeyBlock = 512;
constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

// Returns a multiple of 4, the number of rows that Eigen's product takes together, and no more than
// are asked for. Below 20 rows, keys and columns together Eigen sums coefficient by coefficient, in
// an order that depends on alignment: so it returns at least 20 rows where keys are few.
std::int64_t height_of_chunks(std::int64_t rows, std::int64_t keys) {
  if (keys < 20) return 20;
  const std::int64_t fitting = std::clamp<std::int64_t>(kChunkElements / keys, 4, 64);
  return std::min(fitting / 4 * 4, (rows + 3) / 4 * 4);
}

}  // namespace

Slice::Slice(const Problem& problem, const Tensors& tensors, const Visibility& visibility,
             std::int64_t batch, std::int64_t head, std::int64_t rows)
    : problem_(problem),
      tensors_(tensors),
      visibility_(visibility),
      batch_(batch),
      head_(head),
      all_keys_(static_cast<std::size_t>(keys_in_memory(problem, batch))),
      chunk_rows_(height_of_chunks(rows, keys_in_memory(problem, batch))) {
  std::iota(all_keys_.begin(), all_keys_.end(), 0);
}

Matrix<Fate> Slice::fates(Indices rows) const {
  const auto keys = static_cast<Eigen::Index>(all_keys_.size());
  Matrix<Fate> fates = Matrix<Fate>::Constant(chunk_rows_, keys, Fate::masked);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (Eigen::Index c = 0; c < keys; ++c) {
      if (!visibility_.sees(batch_, rows[i], c)) continue;
      const bool kept =
          problem_.dropout == 0.0 || element_is_kept(problem_, batch_, head_, rows[i], c);
      fates(static_cast<Eigen::Index>(i), c) = kept ? Fate::kept : Fate::dropped;
    }
  }
  return fates;
}

bool Slice::sees_any(std::int64_t row, Indices keys) const {
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::int64_t key) { return visibility_.sees(batch_, row, key); });
}

Matrix<float> Slice::read_rows(const void* tensor, Indices rows) const {
  Matrix<float> values = Matrix<float>::Zero(chunk_rows_, problem_.head_dim);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    read_elements(problem_.input_dtype(), tensor,
                  row_offset(problem_, Side::query, batch_, head_, rows[i]), problem_.head_dim,
                  values.row(static_cast<Eigen::Index>(i)).data());
  }
  return values;
}

// Returns (keys, head_dim).
template <class Scalar>
Matrix<Scalar> Slice::read_keys(const void* tensor, Indices keys, Factors factors) const {
  Matrix<float> values(static_cast<Eigen::Index>(keys.size()), problem_.head_dim);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::int64_t head_kv = kv_head(problem_, head_);
    read_elements(problem_.input_dtype(), tensor,
                  row_offset(problem_, Side::key, batch_, head_kv, keys[i]), problem_.head_dim,
                  values.row(static_cast<Eigen::Index>(i)).data());
  }
  switch (factors) {
    case Factors::as_they_are: break;
    case Factors::absolute: values = values.cwiseAbs(); break;
    case Factors::squares: values = values.cwiseAbs2(); break;
    case Factors::tf32: values = values.unaryExpr(&round_to_tf32); break;
  }
  return values.template cast<Scalar>();
}

template <class Scalar>
Matrix<Scalar> Slice::multiply_transposed(const Matrix<Scalar>& left, const void* tensor,
                                          Indices keys, Factors factors) const {
  const auto all = static_cast<std::int64_t>(keys.size());
  Matrix<Scalar> product(chunk_rows_, all);
  for (std::int64_t begin = 0; begin < all; begin += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, all - begin);
    const Indices block =
        keys.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    product.middleCols(begin, count).noalias() =
        left * read_keys<Scalar>(tensor, block, factors).transpose();
  }
  return product;
}

template <class Scalar>
Matrix<Scalar> Slice::multiply(const Matrix<Scalar>& weights, const void* tensor,
                               Factors factors) const {
  Matrix<Scalar> product = Matrix<Scalar>::Zero(chunk_rows_, problem_.head_dim);
  for (std::int64_t begin = 0; begin < weights.cols(); begin += kKeyBlock) {
    const std::int64_t count = std::min<std::int64_t>(kKeyBlock, weights.cols() - begin);
    const Indices block =
        all_keys().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    product.noalias() +=
        weights.middleCols(begin, count) * read_keys<Scalar>(tensor, block, factors);
  }
  return product;
}

template Matrix<float> Slice::multiply_transposed(const Matrix<float>&, const void*, Indices,
                                                  Factors) const;
template Matrix<double> Slice::multiply_transposed(const Matrix<double>&, const void*, Indices,
                                                   Factors) const;
template Matrix<float> Slice::multiply(const Matrix<float>&, const void*, Factors) const;
template Matrix<double> Slice::multiply(const Matrix<double>&, const void*, Factors) const;

}  // namespace attnlab::reference
