// Compares the calls of naive's products, done by a host's loop, with products slice by slice.
#include "kernels/naive/cuda_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "kernels/naive/schedule.h"

namespace attnlab::naive {
namespace {

using cuda::Gemm;
using cuda::GemmMatrix;
using cuda::Transposed;

using Data = std::vector<double>;

std::size_t place(const GemmMatrix& matrix, i64 group, i64 batch, i64 row, i64 column) {
  if (matrix.transposed == Transposed::yes) std::swap(row, column);
  return static_cast<std::size_t>(matrix.offset + group * matrix.group_stride +
                                  batch * matrix.batch_stride + row * matrix.row_stride + column);
}

// Does what cuBLAS does; at() throws where a call reaches out of its operand.
void run(const Gemm& gemm, i64 group, const Data& left, const Data& right, Data& result) {
  for (i64 b = 0; b < gemm.batch; ++b) {
    for (i64 r = 0; r < gemm.rows; ++r) {
      for (i64 c = 0; c < gemm.columns; ++c) {
        double sum = 0.0;
        for (i64 k = 0; k < gemm.inner; ++k) {
          sum += left.at(place(gemm.left, group, b, r, k)) *
                 right.at(place(gemm.right, group, b, k, c));
        }
        double& value = result.at(place(gemm.result, group, b, r, c));
        value = static_cast<double>(gemm.alpha) * sum +
                (gemm.beta == 0.0f ? 0.0 : static_cast<double>(gemm.beta) * value);
      }
    }
  }
}

Data run(const ProductCalls& calls, const Data& left, const Data& right, std::size_t elements) {
  Data result(elements, std::nan(""));
  for (const Range& zeros : calls.zeros) {
    for (i64 i = zeros.begin; i < zeros.end; ++i) result.at(static_cast<std::size_t>(i)) = 0.0;
  }
  for (const Gemm& gemm : calls.gemms) {
    for (i64 group = 0; group < gemm.groups; ++group) run(gemm, group, left, right, result);
  }
  return result;
}

Data small_integers(i64 elements, i64 factor) {
  Data data;
  for (i64 i = 0; i < elements; ++i) data.push_back(static_cast<double>(i * factor % 11 - 5));
  return data;
}

struct Case {
  const char* name;
  Layout layout;
  i64 batch, heads, heads_kv;
  std::size_t score_calls;  // that are enough
};

Problem make_problem(const Case& shape) {
  Problem problem = {.batch = shape.batch,
                     .num_heads_q = shape.heads,
                     .num_heads_kv = shape.heads_kv,
                     .seqlen_q = 7,
                     .seqlen_k = 10,
                     .head_dim = 3,
                     .layout = shape.layout};
  if (shape.layout == Layout::packed) {
    problem.lengths = {.kind = LengthsKind::packed, .queries = {7, 0, 1, 5}, .keys = {2, 10, 0, 9}};
  }
  return problem;
}

class Products : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Layout, Products,
                         testing::Values(Case{"bhsd", Layout::bhsd, 2, 4, 4, 1},
                                         Case{"bhsd_gqa", Layout::bhsd, 2, 6, 2, 1},
                                         Case{"bhsd_mqa", Layout::bhsd, 3, 4, 1, 1},
                                         Case{"bshd", Layout::bshd, 5, 3, 3, 1},
                                         Case{"bshd_many_heads", Layout::bshd, 2, 8, 8, 1},
                                         Case{"bshd_one_entry", Layout::bshd, 1, 4, 4, 1},
                                         Case{"bshd_gqa", Layout::bshd, 2, 6, 2, 2},
                                         Case{"bshd_mqa", Layout::bshd, 2, 4, 1, 1},
                                         Case{"packed", Layout::packed, 4, 3, 3, 2},
                                         Case{"packed_gqa", Layout::packed, 4, 6, 2, 2}),
                         [](const auto& param) { return std::string(param.param.name); });

// Calls `check(b, h, kv, mask-like rows and keys, first row, first key)` for every slice.
template <class Check>
void for_each_slice(const Problem& problem, const Check& check) {
  i64 first_row = 0, first_key = 0;
  for (i64 b = 0; b < problem.batch; ++b) {
    const bool packed = problem.layout == Layout::packed;
    const i64 rows = problem.queries(b), keys = problem.keys(b);
    for (i64 h = 0; h < problem.num_heads_q; ++h) check(b, h, rows, keys, first_row, first_key);
    if (packed) first_row += rows, first_key += keys;
  }
}

double at(const Data& data, i64 index) { return data.at(static_cast<std::size_t>(index)); }

TEST_P(Products, ScoresOfEverySlice) {
  const Problem problem = make_problem(GetParam());
  const Shape shape = make_shape(problem);
  const Data q = small_integers(problem.elements_q(), 7);
  const Data k = small_integers(problem.elements_k(), 5);
  const ProductCalls calls = score_calls(problem, 0.5f);
  EXPECT_EQ(calls.gemms.size(), GetParam().score_calls);
  const Data s = run(calls, q, k, static_cast<std::size_t>(padded_elements(shape)));
  for_each_slice(problem, [&](i64 b, i64 h, i64 rows, i64 keys, i64 first_row, i64 first_key) {
    for (i64 r = 0; r < rows; ++r) {
      for (i64 c = 0; c < keys; ++c) {
        double want = 0.0;
        for (i64 x = 0; x < shape.head_dim; ++x) {
          want += at(q, shape.q.offset(b, h, first_row + r) + x) *
                  at(k, shape.k.offset(b, shape.kv_head(h), first_key + c) + x);
        }
        ASSERT_EQ(at(s, padded_strides(shape).offset(b, h, r) + c), 0.5 * want)
            << b << " " << h << " " << r << " " << c;
      }
    }
  });
}

TEST_P(Products, RowsOfEverySlice) {
  const Problem problem = make_problem(GetParam());
  const Shape shape = make_shape(problem);
  const Data p = small_integers(padded_elements(shape), 7);
  const Data v = small_integers(problem.elements_k(), 5);
  const Data o =
      run(row_calls(problem, 2.0f), p, v, static_cast<std::size_t>(problem.elements_q()));
  for_each_slice(problem, [&](i64 b, i64 h, i64 rows, i64 keys, i64 first_row, i64 first_key) {
    for (i64 r = 0; r < rows; ++r) {
      for (i64 x = 0; x < shape.head_dim; ++x) {
        double want = 0.0;
        for (i64 c = 0; c < keys; ++c) {
          want += at(p, padded_strides(shape).offset(b, h, r) + c) *
                  at(v, shape.k.offset(b, shape.kv_head(h), first_key + c) + x);
        }
        ASSERT_EQ(at(o, shape.q.offset(b, h, first_row + r) + x), 2.0 * want)
            << b << " " << h << " " << r << " " << x;
      }
    }
  });
}

TEST_P(Products, KeysSumTheQueryHeadsThatShareThem) {
  const Problem problem = make_problem(GetParam());
  const Shape shape = make_shape(problem);
  const Data ds = small_integers(padded_elements(shape), 7);
  const Data q = small_integers(problem.elements_q(), 5);
  const ProductCalls calls = key_calls(problem, 0.5f);
  const Data dk = run(calls, ds, q, static_cast<std::size_t>(problem.elements_k()));
  Data want(dk.size(), 0.0);
  for_each_slice(problem, [&](i64 b, i64 h, i64 rows, i64 keys, i64 first_row, i64 first_key) {
    for (i64 c = 0; c < keys; ++c) {
      for (i64 x = 0; x < shape.head_dim; ++x) {
        double sum = 0.0;
        for (i64 r = 0; r < rows; ++r) {
          sum += at(ds, padded_strides(shape).offset(b, h, r) + c) *
                 at(q, shape.q.offset(b, h, first_row + r) + x);
        }
        const i64 index = shape.k.offset(b, shape.kv_head(h), first_key + c) + x;
        want.at(static_cast<std::size_t>(index)) += 0.5 * sum;
      }
    }
  });
  EXPECT_EQ(dk, want);
  bool adds = false;
  for (const Gemm& gemm : calls.gemms) adds |= gemm.beta != 0.0f;
  EXPECT_EQ(adds, sums_by_calls(problem));
}

}  // namespace
}  // namespace attnlab::naive
