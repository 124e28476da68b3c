// Holds a small tiled kernel in fp32 that can be broken in one place at a time: the tolerance rule
// is tried on it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "reference/dropout.h"
#include "reference/mask.h"
#include "reference/storage.h"
#include "reference/test_support.h"

namespace attnlab::reference {

constexpr std::int64_t kTile = 32;  // keys, and rows in the backward
constexpr float kMinusInfinite = -std::numeric_limits<float>::infinity();

enum class Fault {
  none,
  last_key_dropped,
  last_tile_dropped,
  no_rescale,
  lse_in_log2,
  mask_off_by_one,
  dropout_unscaled,  // backward: dV without keep_scale
  kv_head_off,
  // The faults below are of the backward alone:
  dq_tile_missing,     // one key tile is not added to dQ
  last_rows_missing,   // dK and dV lack the last tile of rows
  unscaled_gradients,  // dQ and dK without softmax_scale
  dp_without_dropout,  // dS = P (dP - delta), Z forgotten
  delta_missing,       // dS = P Z dP
  ds_truncated,        // dS rounded toward 0, not to nearest
  one_head_missing     // of those that share a K/V head, in dK and dV
};

// KernelMask says which keys the kernel believes to be visible.
class KernelMask {
 public:
  KernelMask(const Problem& problem, Fault fault)
      : problem_(problem), visibility_(problem), fault_(fault) {}

  bool sees(std::int64_t b, std::int64_t r, std::int64_t c) const {
    const std::int64_t keys = problem_.keys(b);
    if (fault_ == Fault::last_key_dropped && c == keys - 1) return false;
    if (fault_ == Fault::last_tile_dropped && c >= (keys - 1) / kTile * kTile) return false;
    const std::int64_t shift = fault_ == Fault::mask_off_by_one ? 1 : 0;
    return visibility_.sees(b, r, std::max<std::int64_t>(0, c - shift));
  }

 private:
  const Problem& problem_;
  Visibility visibility_;
  Fault fault_;
};

// Computes one row of FlashAttention-2's forward: tiles of keys, running maximum, unnormalised
// accumulator, P rounded to the storage type before its product.
inline void attend_row(TestProblem& test, const KernelMask& mask, std::int64_t b, std::int64_t h,
                       std::int64_t r, Fault fault) {
  const Problem& problem = test.problem;
  const auto head_dim = static_cast<std::size_t>(problem.head_dim);
  const std::int64_t shared = problem.num_heads_q / problem.num_heads_kv;
  const std::int64_t kv = fault == Fault::kv_head_off ? h % problem.num_heads_kv : h / shared;
  const float keep_scale =
      fault == Fault::dropout_unscaled ? 1.0f : static_cast<float>(dropout_keep_scale(problem));
  float largest = kMinusInfinite, sum = 0.0f;
  std::vector<float> accumulator(head_dim);
  for (std::int64_t begin = 0; begin < test.rows_of_k(b); begin += kTile) {
    const std::int64_t end = std::min(begin + kTile, test.rows_of_k(b));
    std::vector<float> scores;
    for (std::int64_t c = begin; c < end; ++c) {
      float score = 0.0f;
      for (std::int64_t d = 0; d < problem.head_dim; ++d) {
        score += test.factor_q(b, h, r, d) * test.factor(test.k, b, kv, c, d);
      }
      scores.push_back(mask.sees(b, r, c) ? test.scale_log2() * score : kMinusInfinite);
    }
    const float raised = std::max(largest, *std::max_element(scores.begin(), scores.end()));
    if (raised == kMinusInfinite) continue;
    const float factor = std::exp2(largest - raised);
    largest = raised;
    float tile_sum = 0.0f;
    for (float& x : accumulator) x *= fault == Fault::no_rescale ? 1.0f : factor;
    for (std::int64_t c = begin; c < end; ++c) {
      const float p = std::exp2(scores[static_cast<std::size_t>(c - begin)] - largest);
      tile_sum += p;
      if (problem.dropout > 0.0 && !element_is_kept(problem, b, h, r, c)) continue;
      const float rounded = test.factor(round_to_storage(problem.dtype, p));
      for (std::size_t d = 0; d < head_dim; ++d) {
        accumulator[d] += rounded * test.factor(test.v, b, kv, c, static_cast<std::int64_t>(d));
      }
    }
    sum = sum * factor + tile_sum;
    for (float& x : accumulator) x = test.kept(x);
  }
  for (std::size_t d = 0; d < head_dim; ++d) {
    const float o = sum == 0.0f ? 0.0f : accumulator[d] * keep_scale / sum;
    test.o.set(b, h, r, static_cast<std::int64_t>(d), o);
  }
  const float unit = fault == Fault::lse_in_log2 ? 1.0f : std::numbers::ln2_v<float>;
  test.lse_at(b, h, r) = sum == 0.0f ? kMinusInfinite : unit * (largest + std::log2(sum));
}

inline void run_forward(TestProblem& test, Fault fault) {
  const Problem& problem = test.problem;
  const KernelMask mask(problem, fault);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
      for (std::int64_t r = 0; r < problem.queries(b); ++r) {
        attend_row(test, mask, b, h, r, fault);
      }
    }
  }
}

}  // namespace attnlab::reference
