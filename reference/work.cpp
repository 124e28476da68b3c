// Looks at a chunk of rows once: oracle, twin and bounds, of its rows and for the columns.
#include "reference/work.h"

#include "reference/rounding.h"
#include "reference/twin.h"

namespace attnlab::reference {
namespace {

void set_rows(Expected& expected, const Chunk& chunk, const Matrix<double>& value,
              const Matrix<float>& twin, const Matrix<float>& sizes) {
  const auto count = static_cast<Eigen::Index>(chunk.rows.size());
  expected.value.middleRows(chunk.first, count) = value.topRows(count);
  expected.twin.middleRows(chunk.first, count) = twin.topRows(count);
  expected.sizes.segment(chunk.first, count) = sizes.topRows(count).rowwise().maxCoeff();
}

class Worker {
 public:
  Worker(const Problem& problem, Products products, Task& task)
      : problem_(problem), products_(products), task_(task) {}

  void run(Chunk& chunk) {
    const Slice& slice = *chunk.slice;
    const Matrix<float> q = slice.read_q(chunk.rows);
    const Attention attention = attend(slice, chunk.rows);
    const TwinAttention twin = twin_attend(slice, products_, q, attention.fates);
    const Eigen::VectorXf bounds = score_bounds(slice, q, attention.fates);
    const Eigen::VectorXf factors = score_factors(slice, q, attention, bounds);
    if (chunk.reference != nullptr) {
      const auto count = static_cast<Eigen::Index>(chunk.rows.size());
      chunk.reference->lse.segment(chunk.first, count) = attention.lse.head(count);
      chunk.reference->lse_twin.segment(chunk.first, count) = twin.lse.head(count);
      chunk.reference->score_bound.segment(chunk.first, count) = bounds.head(count);
      set_rows(chunk.reference->o, chunk, attention.o, twin_output(slice, products_, twin),
               output_sizes(slice, attention, factors));
    }
    if (chunk.unquantised != nullptr) {
      const auto count = static_cast<Eigen::Index>(chunk.rows.size());
      chunk.reference->unquantised.middleRows(chunk.first, count) =
          attend(*chunk.unquantised, chunk.rows).o.topRows(count);
    }
    if (problem_.pass == Pass::fwd) return;

    // A row needs dS of all keys for its dQ, a column that of its own keys only.
    const bool rows_only = task_.reference == nullptr;
    const Indices keys = rows_only || chunk.reference != nullptr
                             ? slice.all_keys()
                             : Indices(task_.reference->sample.keys);
    const Matrix<float> dout = slice.read_dout(chunk.rows);
    const auto exact = differentiate(slice, attention, dout.cast<double>(), keys);
    const auto rounded = twin_differentiate(slice, products_, twin, attention.fates, dout, keys);
    const auto sizes = gradient_sizes(slice, attention, factors, dout, keys);
    const auto errors = delta_errors(slice, products_, attention, dout, keys);
    if (chunk.reference != nullptr) set_dq(chunk, exact.ds, rounded.ds, sizes.ds, errors);
    if (rows_only) return;
    task_.parts.exact.add(exact, q.cast<double>(), dout.cast<double>());
    task_.parts.twin.add(rounded, twin_factors(products_, q), twin_factors(products_, dout));
    task_.parts.sizes.add(sizes, q.cwiseAbs(), dout.cwiseAbs());
    add_delta_squares(errors, q);
    add_seen(take_columns(attention.fates, keys));
  }

 private:
  void set_dq(Chunk& chunk, const Matrix<double>& exact, const Matrix<float>& rounded,
              const Matrix<float>& sizes, const Matrix<float>& errors) {
    const Slice& slice = *chunk.slice;
    const double scale = problem_.scale();
    Expected& dq = chunk.reference->dq;
    set_rows(dq, chunk, scale * slice.multiply_k(exact, Factors::as_they_are),
             twin_round(problem_, scale, slice.multiply_k(rounded, twin_factors(products_))),
             static_cast<float>(scale) * slice.multiply_k(sizes, Factors::absolute));
    // One error of delta shifts a whole row of dS: it meets the sum P K as it is.
    const auto count = static_cast<Eigen::Index>(chunk.rows.size());
    dq.delta_error.middleRows(chunk.first, count) =
        static_cast<float>(scale) *
        slice.multiply_k(errors, Factors::as_they_are).topRows(count).cwiseAbs();
  }

  // The errors of delta of different rows are independent: their squares add up.
  void add_delta_squares(const Matrix<float>& errors, const Matrix<float>& q) {
    Matrix<float>& squares = task_.parts.delta_squares;
    if (squares.size() == 0) squares = Matrix<float>::Zero(errors.cols(), q.cols());
    squares.noalias() += errors.cwiseAbs2().transpose() * q.cwiseAbs2();
  }

  void add_seen(const Matrix<Fate>& fates) {
    task_.parts.seen.resize(static_cast<std::size_t>(fates.cols()));
    for (Eigen::Index i = 0; i < fates.rows(); ++i) {
      for (Eigen::Index j = 0; j < fates.cols(); ++j) {
        if (fates(i, j) != Fate::masked) task_.parts.seen[static_cast<std::size_t>(j)] = true;
      }
    }
  }

  const Problem& problem_;
  Products products_;
  Task& task_;
};

}  // namespace

void run(const Problem& problem, Products products, Task& task) {
  Worker worker(problem, products, task);
  for (Chunk& chunk : task.chunks) worker.run(chunk);
}

}  // namespace attnlab::reference
