#include "reference/oracle_backward.h"

namespace attnlab::reference {

ScoreGradients<double> differentiate(const Slice& slice, const Attention& attention,
                                     const Matrix<double>& dout, Indices keys) {
  const Problem& problem = slice.problem();
  const Matrix<Fate> fates = take_columns(attention.fates, keys);
  const Matrix<double> p = take_columns(attention.p, keys);
  const Eigen::VectorXd delta = dout.cwiseProduct(attention.o).rowwise().sum();
  const Matrix<double> dp =
      drop(problem, fates, slice.multiply_v_transposed(dout, keys, Factors::as_they_are));
  return {.pz = drop(problem, fates, p), .ds = p.array() * (dp.array().colwise() - delta.array())};
}

}  // namespace attnlab::reference
