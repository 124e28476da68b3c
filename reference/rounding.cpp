#include "reference/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace attnlab::reference {
namespace {

// How much one unit of score_bound adds to the errors of a row.
constexpr float kScoreShare = 0x1p-5f;
// Of f16: below the first numbers are subnormal, and rounded by up to half a step of theirs.
constexpr double kSmallestNormalF16 = 0x1p-14, kHalfStepF16 = 0x1p-25;

// The largest power of two of which the first elements are multiples.
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

}  // namespace

double score_step(const Problem& problem, const void* q, const void* k) {
  return problem.scale() * step_of(problem.dtype, q, problem.elements_q()) *
         step_of(problem.dtype, k, problem.elements_k());
}

Eigen::VectorXf score_bounds(const Slice& slice, const Matrix<float>& q,
                             const Matrix<Fate>& fates) {
  const Matrix<float> sizes =
      slice.multiply_k_transposed<float>(q.cwiseAbs(), slice.all_keys(), Factors::absolute);
  Eigen::VectorXf bounds = Eigen::VectorXf::Zero(sizes.rows());
  for (Eigen::Index i = 0; i < sizes.rows(); ++i) {
    for (Eigen::Index j = 0; j < sizes.cols(); ++j) {
      if (fates(i, j) != Fate::masked) bounds(i) = std::max(bounds(i), sizes(i, j));
    }
  }
  return static_cast<float>(slice.problem().scale()) * bounds;
}

Eigen::VectorXf score_factors(const Eigen::VectorXf& score_bounds) {
  return 1.0f + kScoreShare * score_bounds.array();
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

bool rounds_delta(Dtype dtype, Products products) {
  return dtype != Dtype::f32 || products == Products::tf32;
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
  // That of one P is in all elements of O at once, and meets dP.
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
