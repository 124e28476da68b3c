#include "reference/judged_inputs.h"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

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

// Replaces some elements with one scale by what their codes stand for, and returns the scale.
template <class Part>
float round_part(Part&& part, float amax) {
  const float scale =
      amax == 0.0f ? 1.0f : std::max(amax / 448.0f, std::numeric_limits<float>::min());
  const float reciprocal = 1.0f / scale;
  part =
      part.unaryExpr([&](float x) { return f32_from_e4m3(e4m3_from_f32(x * reciprocal)) * scale; });
  return scale;
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

// Rounds the rows of a head and returns their scales. Where channels have them it returns ones.
Eigen::VectorXf round_rows(ScaleOf scale_of, float amax_of_all, Rows& rows) {
  Eigen::VectorXf scales = Eigen::VectorXf::Ones(rows.rows());
  const auto round_all = [&](float amax) {
    scales.setConstant(round_part(rows.topRows(rows.rows()), amax));
  };
  switch (scale_of) {
    case ScaleOf::tensor: round_all(amax_of_all); break;
    case ScaleOf::head: round_all(amax_of(rows)); break;
    case ScaleOf::block:
      for (Eigen::Index begin = 0; begin < rows.rows(); begin += kRowsOfBlock) {
        const auto count = std::min(kRowsOfBlock, rows.rows() - begin);
        const float amax = amax_of(rows.middleRows(begin, count));
        scales.segment(begin, count).setConstant(round_part(rows.middleRows(begin, count), amax));
      }
      break;
    case ScaleOf::channel:
      for (Eigen::Index c = 0; c < rows.cols(); ++c) {
        const float amax = amax_of(rows.col(c));
        round_part(rows.col(c), amax);
      }
      break;
  }
  return scales;
}

struct Judged {
  std::vector<float> values;
  std::vector<float> scales;  // of rows
};

// Reads, rotates and rounds one tensor, head by head.
Judged judged(const Problem& problem, const void* tensor, Side side, ScaleOf scale_of,
              bool rotates) {
  const bool query = side == Side::query;
  const std::int64_t heads = query ? problem.num_heads_q : problem.num_heads_kv;
  const auto elements =
      static_cast<std::size_t>(query ? problem.elements_q() : problem.elements_k());
  Judged result = {
      .values = std::vector<float>(elements, 0.0f),
      .scales = std::vector<float>(elements / static_cast<std::size_t>(problem.head_dim), 1.0f)};
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
    const Eigen::VectorXf scales = round_rows(scale_of, amax, rows);
    for (Eigen::Index row = 0; row < rows.rows(); ++row) {
      const std::int64_t at = row_offset(problem, side, b, head, row);
      std::copy_n(rows.row(row).data(), problem.head_dim, result.values.begin() + at);
      result.scales[static_cast<std::size_t>(at / problem.head_dim)] = scales(row);
    }
  });
  return result;
}

}  // namespace

JudgedInputs::JudgedInputs(const Problem& problem, const Tensors& tensors)
    : problem_(problem), tensors_(tensors) {
  if (!problem.is_e4m3()) return;
  const Quantisation& how = problem.quantisation;
  const auto keep = [&](const void* tensor, Side side, ScaleOf scale_of, bool rotates,
                        std::vector<float>& values) {
    Judged made = judged(problem, tensor, side, scale_of, rotates);
    values = std::move(made.values);
    return std::move(made.scales);
  };
  scales_q_ = keep(tensors.q, Side::query, how.qk, how.rotate, q_);
  scales_k_ = keep(tensors.k, Side::key, how.qk, how.rotate, k_);
  keep(tensors.v, Side::key, how.v, false, v_);
  tensors_.q = q_.data();
  tensors_.k = k_.data();
  tensors_.v = v_.data();
}

JudgedInputs::Row JudgedInputs::row(Side side, std::int64_t batch, std::int64_t head,
                                    std::int64_t row) const {
  const bool query = side == Side::query;
  const auto at = static_cast<std::size_t>(row_offset(problem_, side, batch, head, row));
  const auto width = static_cast<std::size_t>(problem_.head_dim);
  Row found = {.codes = std::vector<float>(width),
               .scale = (query ? scales_q_ : scales_k_)[at / width]};
  const float* const values = (query ? q_ : k_).data() + at;
  // code * scale was rounded; the nearest code of its quotient is the code again.
  std::transform(values, values + width, found.codes.begin(),
                 [&](float value) { return f32_from_e4m3(e4m3_from_f32(value / found.scale)); });
  return found;
}

}  // namespace attnlab::reference
