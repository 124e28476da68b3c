#include "kernels/naive/cuda_products.h"

#include <algorithm>
#include <array>

#include "kernels/naive/schedule.h"

namespace attnlab::naive {
namespace {

using cuda::Gemm;
using cuda::GemmMatrix;
using cuda::Transposed;

// Products repeat over these axes, outermost first: batch entries, K/V heads, and the query heads
// that share one.
constexpr int kAxes = 3;
constexpr int kGroup = 2;

// SliceOperand is an operand of one entry's products.
struct SliceOperand {
  i64 offset = 0;
  i64 row_stride = 0;
  std::array<i64, kAxes> strides{};  // 0: the same matrix for all
  Transposed transposed = Transposed::no;
};

// Axis is an axis as it is left after others were merged into it.
struct Axis {
  i64 size = 1;
  i64 left = 0;
  i64 right = 0;
  i64 result = 0;
};

struct SliceProduct {
  i64 rows = 0;
  i64 columns = 0;
  i64 inner = 0;
  float alpha = 1.0f;
  SliceOperand left;
  SliceOperand right;
  SliceOperand result;
  std::array<i64, kAxes> sizes{};

  bool sums_heads() const { return result.strides[kGroup] == 0 && sizes[kGroup] > 1; }
};

// Query heads that follow one another as rows of one operand are one product with more rows (they
// share K or V), or with a longer inner dimension (their products are summed).
void merge_heads(SliceProduct& product) {
  const i64 heads = product.sizes[kGroup];
  if (heads == 1) return;
  const auto follow = [](const SliceOperand& operand, i64 rows) {
    return operand.strides[kGroup] == rows * operand.row_stride;
  };
  if (product.sums_heads()) {
    if (!follow(product.left, product.inner) || !follow(product.right, product.inner)) return;
    product.inner *= heads;
  } else {
    if (!follow(product.left, product.rows) || !follow(product.result, product.rows)) return;
    product.rows *= heads;
  }
  product.sizes[kGroup] = 1;
}

// Returns axes with more than one step; neighbours at constant distances become one axis.
std::vector<Axis> merged_axes(const SliceProduct& product) {
  std::vector<Axis> axes;
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<std::size_t>(i);
    if (product.sizes[axis] == 1 || (i == kGroup && product.sums_heads())) continue;
    const Axis inner = {.size = product.sizes[axis],
                        .left = product.left.strides[axis],
                        .right = product.right.strides[axis],
                        .result = product.result.strides[axis]};
    if (!axes.empty() && axes.back().left == inner.size * inner.left &&
        axes.back().right == inner.size * inner.right &&
        axes.back().result == inner.size * inner.result) {
      const i64 outer_size = axes.back().size;
      axes.back() = inner;
      axes.back().size *= outer_size;
    } else {
      axes.push_back(inner);
    }
  }
  return axes;
}

GemmMatrix matrix_of(const SliceOperand& operand, i64 batch_stride, i64 group_stride) {
  return {.offset = operand.offset,
          .row_stride = operand.row_stride,
          .batch_stride = batch_stride,
          .group_stride = group_stride,
          .transposed = operand.transposed};
}

// Takes the longest axis out of the list; one step if there is none.
Axis take_longest(std::vector<Axis>& axes) {
  if (axes.empty()) return {};
  const auto longest = std::max_element(
      axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.size < b.size; });
  const Axis taken = *longest;
  axes.erase(longest);
  return taken;
}

void advance(Gemm& gemm, i64 left, i64 right, i64 result) {
  gemm.left.offset += left;
  gemm.right.offset += right;
  gemm.result.offset += result;
}

// Repeats each call along an axis.
void repeat(std::vector<Gemm>& calls, const Axis& axis) {
  std::vector<Gemm> repeated;
  for (i64 step = 0; step < axis.size; ++step) {
    for (Gemm call : calls) {
      advance(call, step * axis.left, step * axis.right, step * axis.result);
      repeated.push_back(call);
    }
  }
  calls = std::move(repeated);
}

// Appends the calls for all steps of a product's axes: the longest axis as a batch, the next one as
// groups, loops over the others. Groups cost the library a pointer for each matrix and are faster
// than a loop at any size: on an H200, f16, 16 entries of 8 heads, head_dim 64, bshd, backward,
// 0.163 ms against 0.266 at seqlen 512, 7.45 against 7.58 at 4096.
void append(SliceProduct product, std::vector<Gemm>& gemms) {
  merge_heads(product);
  std::vector<Axis> axes = merged_axes(product);
  const Axis batch = take_longest(axes);
  const Axis groups = take_longest(axes);
  std::vector<Gemm> calls = {{.rows = product.rows,
                              .columns = product.columns,
                              .inner = product.inner,
                              .batch = batch.size,
                              .groups = groups.size,
                              .left = matrix_of(product.left, batch.left, groups.left),
                              .right = matrix_of(product.right, batch.right, groups.right),
                              .result = matrix_of(product.result, batch.result, groups.result),
                              .alpha = product.alpha}};
  for (const Axis& axis : axes) repeat(calls, axis);
  const i64 steps = product.sums_heads() ? product.sizes[kGroup] : 1;
  for (i64 step = 0; step < steps; ++step) {
    for (Gemm call : calls) {
      advance(call, step * product.left.strides[kGroup], step * product.right.strides[kGroup], 0);
      call.beta = step == 0 ? 0.0f : 1.0f;
      gemms.push_back(call);
    }
  }
}

// Part has products of the same size: all entries, or one packed entry.
struct Part {
  i64 entries = 1;
  i64 rows = 0;
  i64 keys = 0;
  SliceOperand queries;  // q, o, dO, dQ
  SliceOperand of_keys;  // k, v, dK, dV
  SliceOperand matrix;   // S, P, dP, dS
  Range query_elements;  // of the tensors
  Range key_elements;

  std::array<i64, kAxes> sizes(const Shape& shape) const {
    return {entries, shape.num_heads_kv, shape.num_heads_q / shape.num_heads_kv};
  }
};

std::vector<Part> parts_of(const Problem& problem, const Shape& shape) {
  const i64 group = shape.num_heads_q / shape.num_heads_kv;
  const Strides matrix = padded_strides(shape);
  Part whole = {.entries = shape.batch,
                .rows = shape.seqlen_q,
                .keys = shape.seqlen_k,
                .queries = {.row_stride = shape.q.row,
                            .strides = {shape.q.batch, group * shape.q.head, shape.q.head}},
                .of_keys = {.row_stride = shape.k.row, .strides = {shape.k.batch, shape.k.head, 0}},
                .matrix = {.row_stride = matrix.row,
                           .strides = {matrix.batch, group * matrix.head, matrix.head}}};
  if (problem.layout != Layout::packed) return {whole};
  std::vector<Part> entries;
  i64 first_row = 0;
  i64 first_key = 0;
  for (i64 b = 0; b < shape.batch; ++b) {
    Part entry = whole;
    entry.entries = 1;
    entry.rows = problem.queries(b);
    entry.keys = problem.keys(b);
    entry.queries.offset = first_row * shape.q.row;
    entry.of_keys.offset = first_key * shape.k.row;
    entry.matrix.offset = b * matrix.batch;
    first_row += entry.rows;
    first_key += entry.keys;
    entry.query_elements = {entry.queries.offset, first_row * shape.q.row};
    entry.key_elements = {entry.of_keys.offset, first_key * shape.k.row};
    entries.push_back(entry);
  }
  return entries;
}

SliceOperand transposed(SliceOperand operand) {
  operand.transposed = Transposed::yes;
  return operand;
}

}  // namespace

ProductCalls score_calls(const Problem& problem, float alpha) {
  const Shape shape = make_shape(problem);
  ProductCalls calls;
  for (const Part& part : parts_of(problem, shape)) {
    if (part.rows == 0 || part.keys == 0) continue;
    append({.rows = part.rows,
            .columns = part.keys,
            .inner = shape.head_dim,
            .alpha = alpha,
            .left = part.queries,
            .right = transposed(part.of_keys),
            .result = part.matrix,
            .sizes = part.sizes(shape)},
           calls.gemms);
  }
  return calls;
}

ProductCalls row_calls(const Problem& problem, float alpha) {
  const Shape shape = make_shape(problem);
  ProductCalls calls;
  for (const Part& part : parts_of(problem, shape)) {
    if (part.rows == 0) continue;
    if (part.keys == 0) {
      calls.zeros.push_back(part.query_elements);
      continue;
    }
    append({.rows = part.rows,
            .columns = shape.head_dim,
            .inner = part.keys,
            .alpha = alpha,
            .left = part.matrix,
            .right = part.of_keys,
            .result = part.queries,
            .sizes = part.sizes(shape)},
           calls.gemms);
  }
  return calls;
}

ProductCalls key_calls(const Problem& problem, float alpha) {
  const Shape shape = make_shape(problem);
  ProductCalls calls;
  for (const Part& part : parts_of(problem, shape)) {
    if (part.keys == 0) continue;
    if (part.rows == 0) {
      calls.zeros.push_back(part.key_elements);
      continue;
    }
    append({.rows = part.keys,
            .columns = shape.head_dim,
            .inner = part.rows,
            .alpha = alpha,
            .left = transposed(part.matrix),
            .right = part.queries,
            .result = part.of_keys,
            .sizes = part.sizes(shape)},
           calls.gemms);
  }
  return calls;
}

bool sums_by_calls(const Problem& problem) {
  return problem.num_heads_q != problem.num_heads_kv && problem.layout != Layout::bhsd;
}

}  // namespace attnlab::naive
