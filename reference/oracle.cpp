#include "reference/oracle.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <span>

#include "reference/dropout.h"
#include "reference/slice.h"
#include "reference/twin.h"

namespace attnlab::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Largest score of a row and sum of exp(score - largest), over visible keys.
struct RowSoftmax {
  double largest = -kInfinite;
  double sum = 0.0;
  double lse() const { return sum == 0.0 ? -kInfinite : largest + std::log(sum); }
};

// Scaled scores of one row to probabilities, in place: masked and dropped ones become exactly 0,
// kept ones are scaled by keep_scale.
RowSoftmax softmax_row(double scale, double keep_scale, std::span<const Fate> fates,
                       std::span<double> row) {
  RowSoftmax softmax;
  for (std::size_t j = 0; j < row.size(); ++j) {
    if (fates[j] == Fate::masked) continue;
    row[j] *= scale;
    softmax.largest = std::max(softmax.largest, row[j]);
  }
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = fates[j] == Fate::masked ? 0.0 : std::exp(row[j] - softmax.largest);
    softmax.sum += row[j];
  }
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = fates[j] == Fate::kept ? row[j] * keep_scale / softmax.sum : 0.0;
  }
  return softmax;
}

double largest_visible(std::span<const Fate> fates, std::span<const double> row) {
  double largest = 0.0;
  for (std::size_t j = 0; j < row.size(); ++j) {
    if (fates[j] != Fate::masked) largest = std::max(largest, row[j]);
  }
  return largest;
}

// Fills rows [first, first + count) of a reference; returns their part of largest_product.
double fill_rows(const Slice& slice, Eigen::Index first, Eigen::Index count,
                 ForwardReference& reference) {
  const Problem& problem = slice.problem();
  const std::span<const std::int64_t> rows =
      std::span(reference.sample.rows)
          .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  const std::vector<Fate> fates = slice.fates(rows);
  const auto keys = static_cast<std::size_t>(slice.keys());
  const auto row_of = [keys](auto& matrix, Eigen::Index i) {
    return std::span(matrix).subspan(static_cast<std::size_t>(i) * keys, keys);
  };

  const double scale = problem.scale();
  const double keep_scale = dropout_keep_scale(problem);
  const std::vector<double> sizes = slice.multiply_qk<double>(rows, Factors::absolute);
  std::vector<double> p = slice.multiply_qk<double>(rows, Factors::as_they_are);
  for (Eigen::Index i = 0; i < count; ++i) {
    reference.score_bound(first + i) = scale * largest_visible(row_of(fates, i), row_of(sizes, i));
    reference.lse(first + i) = softmax_row(scale, keep_scale, row_of(fates, i), row_of(p, i)).lse();
  }

  const Eigen::Index head_dim = problem.head_dim;
  const std::vector<double> o = slice.multiply_pv(p, Factors::as_they_are);
  reference.o.middleRows(first, count) = Eigen::Map<const RowMatrix>(o.data(), count, head_dim);
  const std::vector<double> products = slice.multiply_pv(p, Factors::absolute);
  const std::vector<float> twin = twin_forward(slice, rows, fates);
  for (Eigen::Index i = 0; i < count * head_dim; ++i) {
    reference.twin_o(first + i / head_dim, i % head_dim) = twin[static_cast<std::size_t>(i)];
  }
  return *std::max_element(products.begin(), products.end());
}

// Rows of one sample that are worked on together.
struct Chunk {
  std::size_t reference = 0;
  Eigen::Index first = 0;
  Eigen::Index count = 0;
  double largest_product = 0.0;
};

ForwardReference empty_reference(const Sample& sample, std::int64_t head_dim) {
  const auto rows = static_cast<Eigen::Index>(sample.rows.size());
  return {.sample = sample,
          .o = RowMatrix::Zero(rows, head_dim),
          .lse = Eigen::VectorXd::Zero(rows),
          .twin_o = RowMatrix::Zero(rows, head_dim),
          .score_bound = Eigen::VectorXd::Zero(rows)};
}

}  // namespace

std::vector<ForwardReference> forward_reference(const Problem& problem, const Tensors& tensors,
                                                const std::vector<Sample>& samples, int threads) {
  std::vector<ForwardReference> references;
  std::vector<Slice> slices;
  std::vector<Chunk> chunks;
  for (const Sample& sample : samples) {
    references.push_back(empty_reference(sample, problem.head_dim));
    slices.emplace_back(problem, tensors, sample.batch, sample.head);
    const auto rows = static_cast<Eigen::Index>(sample.rows.size());
    const Eigen::Index height = slices.back().chunk_rows();
    for (Eigen::Index first = 0; first < rows; first += height) {
      chunks.push_back({.reference = references.size() - 1,
                        .first = first,
                        .count = std::min(height, rows - first)});
    }
  }

  // Chunks write to disjoint rows; only their largest products must be joined afterwards.
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < chunks.size(); i = next++) {
      Chunk& chunk = chunks[i];
      chunk.largest_product =
          fill_rows(slices[chunk.reference], chunk.first, chunk.count, references[chunk.reference]);
    }
  };
  std::vector<std::future<void>> others;
  for (int t = 1; t < threads; ++t) others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();  // rethrows what a thread threw

  for (const Chunk& chunk : chunks) {
    double& largest = references[chunk.reference].largest_product;
    largest = std::max(largest, chunk.largest_product);
  }
  return references;
}

}  // namespace attnlab::reference
