// Is the small kernel's backward, with places to break.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "reference/test_kernel.h"

namespace attnlab::reference {

// Does FlashAttention-2's backward of one K/V head: tiles of keys outside, the rows of all heads
// that share it inside. P is computed again from lse, delta comes from the stored O, P and dS are
// rounded to the storage type before their products.
class BackwardOfHead {
 public:
  BackwardOfHead(TestProblem& test, const KernelMask& mask, std::int64_t b, std::int64_t kv,
                 Fault fault)
      : test_(test),
        problem_(test.problem),
        mask_(mask),
        b_(b),
        kv_(kv),
        shared_(problem_.num_heads_q / problem_.num_heads_kv),
        fault_(fault),
        dq_(static_cast<std::size_t>(shared_ * problem_.queries(b) * problem_.head_dim)) {}

  void run() {
    for (std::int64_t begin = 0; begin < test_.rows_of_k(b_); begin += kTile) run_tile(begin);
    const float scale = gradient_scale();
    for (std::int64_t i = 0; i < shared_; ++i) {
      for (std::int64_t r = 0; r < problem_.queries(b_); ++r) {
        for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
          test_.dq.set(b_, kv_ * shared_ + i, r, d, scale * dq_at(i, r, d));
        }
      }
    }
  }

 private:
  float gradient_scale() const {
    return fault_ == Fault::unscaled_gradients ? 1.0f : static_cast<float>(problem_.scale());
  }
  float round_ds(float value) const {
    const float nearest = round_to_storage(problem_.dtype, value);
    if (fault_ != Fault::ds_truncated || std::abs(nearest) <= std::abs(value)) return nearest;
    // Finds the value of the storage type below: those half of this one's last place nearer to 0.
    const float step = static_cast<float>(unit_roundoff(problem_.dtype)) * nearest;
    return round_to_storage(problem_.dtype, nearest - 1.25f * step);
  }
  float& dq_at(std::int64_t i, std::int64_t r, std::int64_t d) {
    return dq_[static_cast<std::size_t>((i * problem_.queries(b_) + r) * problem_.head_dim + d)];
  }

  void run_tile(std::int64_t begin) {
    const std::int64_t end = std::min(begin + kTile, test_.rows_of_k(b_));
    const auto elements = static_cast<std::size_t>((end - begin) * problem_.head_dim);
    dk_.assign(elements, 0.0f);
    dv_.assign(elements, 0.0f);
    const std::int64_t rows = problem_.queries(b_);
    for (std::int64_t i = 0; i < shared_; ++i) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const bool in_last_tile = r >= (rows - 1) / kTile * kTile;
        const bool counts = !(fault_ == Fault::last_rows_missing && in_last_tile) &&
                            !(fault_ == Fault::one_head_missing && i == shared_ - 1);
        for (std::int64_t c = begin; c < end; ++c) add_pair(i, r, c, begin, counts);
        for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
          dq_at(i, r, d) = test_.kept(dq_at(i, r, d));
        }
        if ((r + 1) % kTile != 0 && r + 1 != rows) continue;
        for (std::vector<float>* sums : {&dk_, &dv_}) {
          for (float& sum : *sums) sum = test_.kept(sum);
        }
      }
    }
    const float keep_scale =
        fault_ == Fault::dropout_unscaled ? 1.0f : static_cast<float>(dropout_keep_scale(problem_));
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
        const auto at = static_cast<std::size_t>((c - begin) * problem_.head_dim + d);
        test_.dk.set(b_, kv_, c, d, gradient_scale() * dk_[at]);
        test_.dv.set(b_, kv_, c, d, keep_scale * dv_[at]);
      }
    }
  }

  // Adds what row r of the i-th head and key c give to each other; `counts`: also to the key.
  void add_pair(std::int64_t i, std::int64_t r, std::int64_t c, std::int64_t begin, bool counts) {
    if (!mask_.sees(b_, r, c)) return;
    const std::int64_t h = kv_ * shared_ + i;
    const std::int64_t head_k = fault_ == Fault::kv_head_off ? h % problem_.num_heads_kv : kv_;
    float score = 0.0f, dp = 0.0f, delta = 0.0f;
    for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
      score += test_.factor_q(b_, h, r, d) * test_.factor(test_.k, b_, head_k, c, d);
      dp += test_.factor(test_.dout, b_, h, r, d) * test_.factor(test_.v, b_, head_k, c, d);
      delta += test_.dout.get(b_, h, r, d) * test_.o.get(b_, h, r, d);
    }
    const float lse_log2 = std::numbers::log2e_v<float> * test_.lse_at(b_, h, r);
    const float p = std::exp2(test_.scale_log2() * score - lse_log2);
    const bool kept = problem_.dropout == 0.0 || element_is_kept(problem_, b_, h, r, c);
    const float z = kept ? static_cast<float>(dropout_keep_scale(problem_)) : 0.0f;
    if (fault_ != Fault::dp_without_dropout) dp *= z;
    if (fault_ == Fault::delta_missing) delta = 0.0f;
    const float ds = test_.factor(round_ds(p * (dp - delta)));
    const float rounded_p = kept ? test_.factor(round_to_storage(problem_.dtype, p)) : 0.0f;
    const bool adds_dq = fault_ != Fault::dq_tile_missing || begin != 0;
    for (std::int64_t d = 0; d < problem_.head_dim; ++d) {
      if (adds_dq) dq_at(i, r, d) += ds * test_.factor(test_.k, b_, head_k, c, d);
      if (!counts) continue;
      const auto at = static_cast<std::size_t>((c - begin) * problem_.head_dim + d);
      dk_[at] += ds * test_.factor(test_.q, b_, h, r, d);
      dv_[at] += rounded_p * test_.factor(test_.dout, b_, h, r, d);
    }
  }

  TestProblem& test_;
  const Problem& problem_;
  const KernelMask& mask_;
  std::int64_t b_, kv_, shared_;
  Fault fault_;
  std::vector<float> dq_;       // (heads, rows, head_dim), unscaled
  std::vector<float> dk_, dv_;  // (keys of a tile, head_dim), unscaled
};

// Takes the o and lse that run_forward() left.
inline void run_backward(TestProblem& test, Fault fault) {
  const KernelMask mask(test.problem, fault);
  for (std::int64_t b = 0; b < test.problem.batch; ++b) {
    for (std::int64_t kv = 0; kv < test.problem.num_heads_kv; ++kv) {
      BackwardOfHead(test, mask, b, kv, fault).run();
    }
  }
}

}  // namespace attnlab::reference
