#include "reference/slice.h"

#include <Eigen/Core>
#include <algorithm>

#include "reference/dropout.h"
#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

template <class Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Keys converted at a time, and elements of P held at a time: a few MB each, whatever the lengths.
constexpr std::int64_t kKeyBlock = 512;
constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

// A multiple of 4, the number of rows that Eigen's product takes together, and no more than the
// entry has. Below 20 rows, keys and columns together Eigen sums coefficient by coefficient, in an
// order that depends on alignment: so at least 20 rows where keys are few.
std::int64_t height_of_chunks(std::int64_t rows, std::int64_t keys) {
  if (keys < 20) return 20;
  const std::int64_t fitting = std::clamp<std::int64_t>(kChunkElements / keys, 4, 64);
  return std::min(fitting / 4 * 4, (rows + 3) / 4 * 4);
}

// The values of `count` rows of one head, row_at(i) being the i-th: (count, head_dim).
template <class Scalar, class RowAt>
Matrix<Scalar> read_rows(const Problem& problem, Side side, const void* tensor, std::int64_t b,
                         std::int64_t head, std::int64_t count, const RowAt& row_at,
                         Factors factors) {
  Matrix<float> values(count, problem.head_dim);
  for (std::int64_t i = 0; i < count; ++i) {
    read_elements(problem.dtype, tensor, row_offset(problem, side, b, head, row_at(i)),
                  problem.head_dim, values.row(i).data());
  }
  if (factors == Factors::absolute) values = values.cwiseAbs();
  return values.template cast<Scalar>();
}

// Keys [begin, begin + count) of k or v, as query head `head` sees them.
template <class Scalar>
Matrix<Scalar> read_keys(const Problem& problem, const void* tensor, std::int64_t b,
                         std::int64_t head, std::int64_t begin, std::int64_t count,
                         Factors factors) {
  const auto row_at = [begin](std::int64_t i) { return begin + i; };
  return read_rows<Scalar>(problem, Side::key, tensor, b, kv_head(problem, head), count, row_at,
                           factors);
}

}  // namespace

Slice::Slice(const Problem& problem, const Tensors& tensors, std::int64_t batch, std::int64_t head)
    : problem_(problem),
      tensors_(tensors),
      batch_(batch),
      head_(head),
      keys_(keys_in_memory(problem, batch)),
      chunk_rows_(height_of_chunks(rows_in_memory(problem, batch), keys_)) {}

std::vector<Fate> Slice::fates(std::span<const std::int64_t> rows) const {
  std::vector<Fate> fates;
  fates.reserve(rows.size() * static_cast<std::size_t>(keys_));
  for (const std::int64_t r : rows) {
    for (std::int64_t c = 0; c < keys_; ++c) {
      if (!key_is_visible(problem_, batch_, r, c)) {
        fates.push_back(Fate::masked);
      } else {
        const bool kept = problem_.dropout == 0.0 || element_is_kept(problem_, batch_, head_, r, c);
        fates.push_back(kept ? Fate::kept : Fate::dropped);
      }
    }
  }
  return fates;
}

template <class Scalar>
std::vector<Scalar> Slice::multiply_qk(std::span<const std::int64_t> rows, Factors factors) const {
  const auto count_q = static_cast<std::int64_t>(rows.size());
  const auto row_at = [rows](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; };
  Matrix<Scalar> q = Matrix<Scalar>::Zero(chunk_rows_, problem_.head_dim);
  q.topRows(count_q) =
      read_rows<Scalar>(problem_, Side::query, tensors_.q, batch_, head_, count_q, row_at, factors);
  std::vector<Scalar> scores(static_cast<std::size_t>(chunk_rows_ * keys_));
  Eigen::Map<Matrix<Scalar>> product(scores.data(), chunk_rows_, keys_);
  for (std::int64_t begin = 0; begin < keys_; begin += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, keys_ - begin);
    const Matrix<Scalar> k =
        read_keys<Scalar>(problem_, tensors_.k, batch_, head_, begin, count, factors);
    product.middleCols(begin, count).noalias() = q * k.transpose();
  }
  return scores;
}

template <class Scalar>
std::vector<Scalar> Slice::multiply_pv(const std::vector<Scalar>& p, Factors factors) const {
  std::vector<Scalar> o(static_cast<std::size_t>(chunk_rows_ * problem_.head_dim));
  Eigen::Map<Matrix<Scalar>> product(o.data(), chunk_rows_, problem_.head_dim);
  Eigen::Map<const Matrix<Scalar>> probabilities(p.data(), chunk_rows_, keys_);
  for (std::int64_t begin = 0; begin < keys_; begin += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, keys_ - begin);
    const Matrix<Scalar> v =
        read_keys<Scalar>(problem_, tensors_.v, batch_, head_, begin, count, factors);
    product.noalias() += probabilities.middleCols(begin, count) * v;
  }
  return o;
}

template std::vector<float> Slice::multiply_qk(std::span<const std::int64_t>, Factors) const;
template std::vector<double> Slice::multiply_qk(std::span<const std::int64_t>, Factors) const;
template std::vector<float> Slice::multiply_pv(const std::vector<float>&, Factors) const;
template std::vector<double> Slice::multiply_pv(const std::vector<double>&, Factors) const;

}  // namespace attnlab::reference
