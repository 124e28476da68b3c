#include "reference/twin.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/dropout.h"

namespace attnlab::reference {
namespace {

// Returns the sum of value(j) for j < count in eight lanes, as vectorised frameworks do; one
// running sum would lose more.
template <class Value>
float sum_in_lanes(Eigen::Index count, const Value& value) {
  std::array<float, 8> lanes{};
  for (Eigen::Index j = 0; j < count; ++j) {
    lanes[static_cast<std::size_t>(j) % lanes.size()] += value(j);
  }
  float sum = 0.0f;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Turns scores of e4m3 into P as kernels do: scores are not rounded, P is shifted by 2^8 and
// rounded to e4m3, and its sum is that of what was not rounded. P keeps the factor 1 / sum.
float softmax_row_e4m3(const Problem& problem, const Matrix<Fate>& fates, Eigen::Index i,
                       const Matrix<double>& scores, Matrix<float>& p) {
  constexpr double kShift = 0x1p8;
  double largest = -std::numeric_limits<double>::infinity();
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    if (fates(i, j) == Fate::masked) continue;
    largest = std::max(largest, problem.scale() * scores(i, j));
  }
  double sum = 0.0;
  std::vector<double> shifted(static_cast<std::size_t>(p.cols()), 0.0);
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    if (fates(i, j) == Fate::masked) continue;
    double& value = shifted[static_cast<std::size_t>(j)];
    value = kShift * std::exp(problem.scale() * scores(i, j) - largest);
    sum += value;
  }
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    const auto value = static_cast<float>(shifted[static_cast<std::size_t>(j)]);
    const double rounded = static_cast<double>(round_to_storage(Dtype::e4m3, value));
    p(i, j) = sum == 0.0 ? 0.0f : static_cast<float>(rounded / sum);
  }
  return static_cast<float>(sum == 0.0 ? largest : largest + std::log(sum / kShift));
}

// Turns scores of row i into probabilities, in place; masked ones become exactly 0, whatever their
// score. Returns the row's lse.
float softmax_row(const Problem& problem, const Matrix<Fate>& fates, Eigen::Index i,
                  Matrix<float>& p) {
  const float scale = static_cast<float>(problem.scale());
  float largest = -std::numeric_limits<float>::infinity();
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    if (fates(i, j) == Fate::masked) continue;
    p(i, j) = round_to_storage(problem.dtype, scale * p(i, j));
    largest = std::max(largest, p(i, j));
  }
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    p(i, j) = fates(i, j) == Fate::masked ? 0.0f : std::exp(p(i, j) - largest);
  }
  const float sum = sum_in_lanes(p.cols(), [&](Eigen::Index j) { return p(i, j); });
  if (sum == 0.0f) return largest;  // sees nothing: P stays 0
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    p(i, j) = round_to_storage(problem.dtype, p(i, j) / sum);
  }
  return largest + std::log(sum);
}

// Makes kept elements times keep_scale, rounded; all others 0, also those that a mask hides.
void drop(const Problem& problem, const Matrix<Fate>& fates, Matrix<float>& values) {
  const float keep_scale = static_cast<float>(dropout_keep_scale(problem));
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    float& value = values.data()[i];
    const bool kept = fates.data()[i] == Fate::kept;
    value = kept ? round_to_storage(problem.dtype, value * keep_scale) : 0.0f;
  }
}

}  // namespace

Matrix<float> twin_round(const Problem& problem, double scale, const Matrix<float>& sums) {
  const float factor = static_cast<float>(scale);
  return sums.unaryExpr(
      [&](float sum) { return round_to_storage(problem.output_dtype(), factor * sum); });
}

Factors twin_factors(Products products) {
  return products == Products::tf32 ? Factors::tf32 : Factors::as_they_are;
}

Matrix<float> twin_factors(Products products, const Matrix<float>& values) {
  if (products != Products::tf32) return values;
  return values.unaryExpr(&round_to_tf32);
}

TwinAttention twin_attend(const Slice& slice, Products products, const Matrix<float>& q,
                          const Matrix<Fate>& fates) {
  const bool is_e4m3 = slice.problem().is_e4m3();
  TwinAttention attention;
  Matrix<double> scores;  // of e4m3
  if (is_e4m3) {
    scores = slice.multiply_k_transposed(Matrix<double>(q.cast<double>()), slice.all_keys(),
                                         Factors::as_they_are);
    attention.p.resize(scores.rows(), scores.cols());
  } else {
    attention.p = slice.multiply_k_transposed(twin_factors(products, q), slice.all_keys(),
                                              twin_factors(products));
  }
  attention.lse.resize(attention.p.rows());
  for (Eigen::Index i = 0; i < attention.p.rows(); ++i) {
    attention.lse(i) = is_e4m3 ? softmax_row_e4m3(slice.problem(), fates, i, scores, attention.p)
                               : softmax_row(slice.problem(), fates, i, attention.p);
  }
  attention.pz = attention.p;
  if (slice.problem().dropout > 0.0) drop(slice.problem(), fates, attention.pz);
  return attention;
}

Matrix<float> twin_output(const Slice& slice, Products products, const TwinAttention& attention) {
  if (slice.problem().is_e4m3()) {
    const Matrix<double> p = attention.pz.cast<double>();
    return twin_round(slice.problem(), 1.0,
                      slice.multiply_v(p, Factors::as_they_are).cast<float>());
  }
  return twin_round(slice.problem(), 1.0,
                    slice.multiply_v(twin_factors(products, attention.pz), twin_factors(products)));
}

ScoreGradients<float> twin_differentiate(const Slice& slice, Products products,
                                         const TwinAttention& attention, const Matrix<Fate>& fates,
                                         const Matrix<float>& dout, Indices keys) {
  const Problem& problem = slice.problem();
  Matrix<float> dp =
      twin_round(problem, 1.0,
                 slice.multiply_v_transposed(twin_factors(products, dout), slice.all_keys(),
                                             twin_factors(products)));
  drop(problem, fates, dp);
  Matrix<float> ds(dp.rows(), dp.cols());
  for (Eigen::Index i = 0; i < dp.rows(); ++i) {
    const float sum =
        sum_in_lanes(dp.cols(), [&](Eigen::Index j) { return attention.p(i, j) * dp(i, j); });
    for (Eigen::Index j = 0; j < dp.cols(); ++j) {
      ds(i, j) = round_to_storage(problem.dtype, attention.p(i, j) * (dp(i, j) - sum));
    }
  }
  return {.pz = twin_factors(products, take_columns(attention.pz, keys)),
          .ds = twin_factors(products, take_columns(ds, keys))};
}

}  // namespace attnlab::reference
