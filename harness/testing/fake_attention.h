// Computes attention in f32 by plain loops, straight from the definition, for the fake kernels of
// run_test and the verifier's tests: one row of one (batch, query head) slice at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/api/tensors.h"
#include "reference/dropout.h"

namespace attnlab::fake {

// Says where a row of a slice lies.
struct Row {
  const Problem& problem;
  const Tensors& tensors;
  const Mask& mask;
  Shape shape;
  std::int64_t b, h, r;
  std::int64_t first_row = 0, first_key = 0;  // of a packed entry
  std::int64_t head_kv = -1;                  // not -1: instead of the one that h reads

  const float* q() const { return static_cast<const float*>(tensors.q) + at_q(); }
  const float* k(std::int64_t c) const { return static_cast<const float*>(tensors.k) + at_k(c); }
  const float* v(std::int64_t c) const { return static_cast<const float*>(tensors.v) + at_k(c); }
  float* o() const { return static_cast<float*>(tensors.o) + at_q(); }
  float& lse() const { return tensors.lse[shape.row_statistic_offset(b, h, r)]; }
  const float* dout() const { return static_cast<const float*>(tensors.dout) + at_q(); }
  float* dq() const { return static_cast<float*>(tensors.dq) + at_q(); }
  float* dk(std::int64_t c) const { return static_cast<float*>(tensors.dk) + at_k(c); }
  float* dv(std::int64_t c) const { return static_cast<float*>(tensors.dv) + at_k(c); }

  float dot(const float* x, const float* y) const {
    float sum = 0.0f;
    for (std::int64_t i = 0; i < shape.head_dim; ++i) sum += x[i] * y[i];
    return sum;
  }
  // Computes y += factor * x.
  void add(float factor, const float* x, float* y) const {
    for (std::int64_t i = 0; i < shape.head_dim; ++i) y[i] += factor * x[i];
  }
  float score(std::int64_t c) const { return dot(q(), k(c)) * shape.softmax_scale; }
  // Returns what dropout multiplies P with.
  float z(std::int64_t c) const {
    if (problem.dropout == 0.0) return 1.0f;
    const bool kept = reference::element_is_kept(problem, b, h, r, c);
    return kept ? static_cast<float>(reference::dropout_keep_scale(problem)) : 0.0f;
  }

 private:
  std::int64_t at_q() const { return shape.q.offset(b, h, first_row + r); }
  std::int64_t at_k(std::int64_t c) const {
    return shape.k.offset(b, head_kv < 0 ? shape.kv_head(h) : head_kv, first_key + c);
  }
};

// Computes o and lse of the row, from the keys before `keys_end`.
inline void attend(const Row& row, std::int64_t keys_end) {
  std::vector<float> scores;
  std::vector<std::int64_t> columns;
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t c = 0; c < keys_end; ++c) {
    if (!is_visible(row.mask, row.r, c)) continue;
    scores.push_back(row.score(c));
    columns.push_back(c);
    largest = std::max(largest, scores.back());
  }
  float sum = 0.0f;
  for (float& score : scores) sum += score = std::exp(score - largest);
  std::fill_n(row.o(), row.shape.head_dim, 0.0f);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    row.add(scores[j] / sum * row.z(columns[j]), row.v(columns[j]), row.o());
  }
  row.lse() = largest + std::log(sum);
}

// Adds the row's part to dq, dk and dv, which start as zeros.
inline void differentiate(const Row& row) {
  const float delta = row.dot(row.o(), row.dout());
  for (std::int64_t c = 0; c < row.mask.seqlen_k; ++c) {
    if (!is_visible(row.mask, row.r, c)) continue;
    const float p = std::exp(row.score(c) - row.lse());
    const float dp = row.z(c) * row.dot(row.dout(), row.v(c));
    const float ds = p * (dp - delta) * row.shape.softmax_scale;
    row.add(ds, row.k(c), row.dq());
    row.add(ds, row.q(), row.dk(c));
    row.add(p * row.z(c), row.dout(), row.dv(c));
  }
}

// Calls `visit` with every row of the problem.
template <class Visit>
void for_each_row(const Problem& problem, const Tensors& tensors, const Visit& visit) {
  const std::vector<std::uint8_t> pattern = make_block_pattern(problem);
  const bool packed = problem.layout == Layout::packed;
  std::int64_t first_row = 0, first_key = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const Mask mask = make_mask(problem, b, view_block_pattern(problem, pattern.data()));
    for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
      for (std::int64_t r = 0; r < mask.seqlen_q; ++r) {
        visit(Row{problem, tensors, mask, make_shape(problem), b, h, r, first_row, first_key});
      }
    }
    if (packed) {
      first_row += problem.queries(b);
      first_key += problem.keys(b);
    }
  }
}

}  // namespace attnlab::fake
