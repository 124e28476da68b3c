#include "reference/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace attnlab::reference {
namespace {

// One unit of score_bound, or of S, adds this to the errors of a row.
constexpr float kScoreShare = 0x1p-5f;
// In f16 numbers below the first are subnormal, and rounded by up to half a step of theirs.
constexpr double kSmallestNormalF16 = 0x1p-14, kHalfStepF16 = 0x1p-25;

// Returns the largest power of two of which the first elements are multiples.
double step_of(Dtype dtype, const void* tensor, std::int64_t elements) {
  std::vector<float> values(
      static_cast<std::size_t>(std::min<std::int64_t>(elements, kElementsOfStep)));
  read_elements(dtype, tensor, 0, static_cast<std::int64_t>(values.size()), values.data());
  double step = 0.0;
  for (const float value : values) {
    if (value == 0.0f || !std::isfinite(value)) continue;
    int exponent = 0;
    const double mantissa = std::ldexp(std::frexp(static_cast<double>(value), &exponent), 24);
    const auto digits = static_cast<std::uint32_t>(std::abs(mantissa));
    const double own = std::ldexp(1.0, exponent - 24 + std::countr_zero(digits));
    step = step == 0.0 ? own : std::min(step, own);
  }
  return step;
}

// Returns each row's largest element that it sees, none of them negative: 0 if there is none.
Eigen::VectorXf largest_visible(const Matrix<float>& elements, const Matrix<Fate>& fates) {
  Eigen::VectorXf largest = Eigen::VectorXf::Zero(elements.rows());
  for (Eigen::Index i = 0; i < elements.rows(); ++i) {
    for (Eigen::Index j = 0; j < elements.cols(); ++j) {
      if (fates(i, j) != Fate::masked) largest(i) = std::max(largest(i), elements(i, j));
    }
  }
  return largest;
}

}  // namespace

double score_step(const Problem& problem, const void* q, const void* k) {
  return problem.scale() * step_of(problem.input_dtype(), q, problem.elements_q()) *
         step_of(problem.input_dtype(), k, problem.elements_k());
}

Eigen::VectorXf score_bounds(const Slice& slice, const Matrix<float>& q,
                             const Matrix<Fate>& fates) {
  const Matrix<float> sizes =
      slice.multiply_k_transposed<float>(q.cwiseAbs(), slice.all_keys(), Factors::absolute);
  return static_cast<float>(slice.problem().scale()) * largest_visible(sizes, fates);
}

Eigen::VectorXf score_factors(const Slice& slice, const Matrix<float>& q,
                              const Attention& attention, const Eigen::VectorXf& score_bounds) {
  const Problem& problem = slice.problem();
  const Matrix<float> squares =
      slice.multiply_k_transposed<float>(q.cwiseAbs2(), slice.all_keys(), Factors::squares);
  const Eigen::VectorXf norms =
      static_cast<float>(problem.scale()) * largest_visible(squares, attention.fates).cwiseSqrt();
  Eigen::VectorXf factors = Eigen::VectorXf::Ones(norms.size());
  for (Eigen::Index i = 0; i < norms.size(); ++i) {
    const float bound = score_bounds(i);
    if (!(bound > 0.0f)) continue;  // sees nothing, or scores that are 0 exactly
    const double score = std::abs(attention.lse(i) + std::log(attention.p.row(i).maxCoeff()));
    // No norm is larger than the sum of sizes; its squares may overflow.
    const auto norm = static_cast<double>(std::min(norms(i), bound));
    const double of_one = (score * score + score * norm + norm * norm) / 3.0;
    const double sum = std::sqrt(static_cast<double>(problem.head_dim) * of_one);
    factors(i) = std::max(1.0f + kScoreShare * bound, kScoreShare * static_cast<float>(sum));
  }
  return factors;
}

Matrix<float> output_sizes(const Slice& slice, const Attention& attention,
                           const Eigen::VectorXf& factors) {
  const Matrix<float> p = attention.p.cast<float>();
  const Matrix<float> pz = drop(slice.problem(), attention.fates, p);
  return slice.multiply_v(pz, Factors::absolute).array().colwise() * factors.array();
}

ScoreGradients<float> gradient_sizes(const Slice& slice, const Attention& attention,
                                     const Eigen::VectorXf& factors, const Matrix<float>& dout,
                                     Indices keys) {
  const Problem& problem = slice.problem();
  const Matrix<Fate> fates = take_columns(attention.fates, keys);
  const Matrix<float> size = dout.cwiseAbs();
  const Eigen::VectorXf delta =
      size.cwiseProduct(attention.o.cwiseAbs().cast<float>()).rowwise().sum();
  const Matrix<float> dp =
      drop(problem, fates, slice.multiply_v_transposed(size, keys, Factors::absolute));
  const Matrix<float> p =
      take_columns(attention.p, keys).cast<float>().array().colwise() * factors.array();
  return {.pz = drop(problem, fates, p), .ds = p.array() * (dp.array().colwise() + delta.array())};
}

Matrix<float> delta_errors(const Slice& slice, Products products, const Attention& attention,
                           const Matrix<float>& dout, Indices keys) {
  const Dtype dtype = slice.problem().dtype;
  Matrix<float> errors_of_o =
      attention.o.unaryExpr([&](double o) { return rounding_error(dtype, products, std::abs(o)); })
          .cast<float>();
  if (dtype == Dtype::f16) {  // a P that is subnormal is off by half a step, or by all of itself
    const Matrix<float> subnormal =
        attention.p
            .unaryExpr(
                [](double p) { return p < kSmallestNormalF16 ? std::min(p, kHalfStepF16) : 0.0; })
            .cast<float>();
    errors_of_o +=
        slice.multiply_v(drop(slice.problem(), attention.fates, subnormal), Factors::absolute);
  }
  // The error of one P is in all elements of O at once, and meets dP.
  const Matrix<float> dp =
      drop(slice.problem(), attention.fates,
           slice.multiply_v_transposed(dout, slice.all_keys(), Factors::as_they_are));
  const Eigen::VectorXf of_p = dp.cwiseProduct(attention.p.cast<float>()).rowwise().squaredNorm();
  const auto e = static_cast<float>(unit_roundoff(dtype, products));
  const Eigen::VectorXf of_o = dout.cwiseProduct(errors_of_o).rowwise().squaredNorm();
  const Eigen::VectorXf delta = (of_o + e * e * of_p).cwiseSqrt();
  return take_columns(attention.p, keys).cast<float>().array().colwise() * delta.array();
}

}  // namespace attnlab::reference
