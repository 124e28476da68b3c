#include "reference/judged_inputs.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/shared/convert.h"
#include "kernels/shared/philox.h"
#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Eigen::Index kRowsOfBlock = 128;
constexpr std::uint32_t kStream = 0x5167;

// Computes x H / sqrt(width) in fp32 as the definition orders it: H_2n is ((H, H), (H, -H)), and
// the smaller matrix comes first. It has as many values as `width`, a power of two.
void walsh_hadamard(float* values, Eigen::Index width) {
  if (width == 1) return;
  const Eigen::Index half = width / 2;
  walsh_hadamard(values, half);
  walsh_hadamard(values + half, half);
  for (Eigen::Index i = 0; i < half; ++i) {
    const float a = values[i], b = values[i + half];
    values[i] = a + b;
    values[i + half] = a - b;
  }
}

void rotate(const Problem& problem, std::int64_t head_kv, Rows& rows) {
  const PhiloxKey key = {static_cast<std::uint32_t>(problem.seed),
                         static_cast<std::uint32_t>(problem.seed >> 32)};
  for (Eigen::Index c = 0; c < rows.cols(); ++c) {
    const PhiloxCounter words = philox({.x = static_cast<std::uint32_t>(c / 128),
                                        .y = static_cast<std::uint32_t>(head_kv),
                                        .z = 0,
                                        .w = kStream},
                                       key);
    const std::uint32_t in_order[] = {words.x, words.y, words.z, words.w};
    if ((in_order[c % 128 / 32] >> (c % 32)) % 2 == 1) rows.col(c) = -rows.col(c);
  }
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    Eigen::Index begin = 0;
    while (begin < rows.cols()) {
      const auto rest = static_cast<std::uint64_t>(rows.cols() - begin);
      const auto width = static_cast<Eigen::Index>(std::bit_floor(rest));
      walsh_hadamard(rows.row(i).data() + begin, width);
      const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
      rows.row(i).segment(begin, width) *= factor;
      begin += width;
    }
  }
}

// Replaces some elements with one scale by what their codes stand for.
template <class Part>
void round_part(Part&& part, float amax) {
  const float scale =
      amax == 0.0f ? 1.0f : std::max(amax / 448.0f, std::numeric_limits<float>::min());
  const float reciprocal = 1.0f / scale;
  part =
      part.unaryExpr([&](float x) { return f32_from_e4m3(e4m3_from_f32(x * reciprocal)) * scale; });
}

template <class Part>
float amax_of(const Part& part) {
  float amax = 0.0f;
  for (Eigen::Index i = 0; i < part.rows(); ++i) {
    for (Eigen::Index j = 0; j < part.cols(); ++j) {
      const float size = std::abs(part(i, j));
      if (size > amax) amax = std::min(size, std::numeric_limits<float>::max());
    }
  }
  return amax;
}

void round_rows(ScaleOf scale_of, float amax_of_all, Rows& rows) {
  switch (scale_of) {
    case ScaleOf::tensor: return round_part(rows.topRows(rows.rows()), amax_of_all);
    case ScaleOf::head: return round_part(rows.topRows(rows.rows()), amax_of(rows));
    case ScaleOf::block:
      for (Eigen::Index begin = 0; begin < rows.rows(); begin += kRowsOfBlock) {
        const auto count = std::min(kRowsOfBlock, rows.rows() - begin);
        const float amax = amax_of(rows.middleRows(begin, count));
        round_part(rows.middleRows(begin, count), amax);
      }
      return;
    case ScaleOf::channel:
      for (Eigen::Index c = 0; c < rows.cols(); ++c) {
        const float amax = amax_of(rows.col(c));
        round_part(rows.col(c), amax);
      }
      return;
  }
}

// Judges one tensor: reads, rotates and rounds it, head by head.
std::vector<float> judged(const Problem& problem, const void* tensor, Side side, ScaleOf scale_of,
                          bool rotates) {
  const bool query = side == Side::query;
  const std::int64_t heads = query ? problem.num_heads_q : problem.num_heads_kv;
  std::vector<float> values(
      static_cast<std::size_t>(query ? problem.elements_q() : problem.elements_k()), 0.0f);
  const auto visit = [&](auto&& work) {
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      const std::int64_t count = query ? rows_in_memory(problem, b) : problem.keys(b);
      for (std::int64_t head = 0; head < heads; ++head) {
        Rows rows(count, problem.head_dim);
        for (std::int64_t row = 0; row < count; ++row) {
          read_elements(Dtype::f32, tensor, row_offset(problem, side, b, head, row),
                        problem.head_dim, rows.row(row).data());
        }
        if (rotates) rotate(problem, query ? kv_head(problem, head) : head, rows);
        work(b, head, rows);
      }
    }
  };
  float amax = 0.0f;
  if (scale_of == ScaleOf::tensor) {
    visit([&](std::int64_t, std::int64_t, const Rows& rows) {
      amax = std::max(amax, amax_of(rows));
    });
  }
  visit([&](std::int64_t b, std::int64_t head, Rows& rows) {
    round_rows(scale_of, amax, rows);
    for (Eigen::Index row = 0; row < rows.rows(); ++row) {
      std::copy_n(rows.row(row).data(), problem.head_dim,
                  values.begin() + row_offset(problem, side, b, head, row));
    }
  });
  return values;
}

}  // namespace

JudgedInputs::JudgedInputs(const Problem& problem, const Tensors& tensors) : tensors_(tensors) {
  if (!problem.is_e4m3()) return;
  const Quantisation& how = problem.quantisation;
  q_ = judged(problem, tensors.q, Side::query, how.qk, how.rotate);
  k_ = judged(problem, tensors.k, Side::key, how.qk, how.rotate);
  v_ = judged(problem, tensors.v, Side::key, how.v, false);
  tensors_.q = q_.data();
  tensors_.k = k_.data();
  tensors_.v = v_.data();
}

}  // namespace attnlab::reference
