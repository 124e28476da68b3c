// Highway compiles this file once per instruction set (foreach_target includes it again) and each
// pass lands in its own namespace, so no inline function of one set can be linked into another.
#include "kernels/cpu/tile_ops_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_ops_float.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "kernels/cpu/tile_ops-inl.h"
#include "kernels/shared/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace attnlab::cpu::HWY_NAMESPACE {
namespace {

// Computes 2^x by a degree 6 polynomial on [-1/2, 1/2] whose relative error of 2e-9 (minimax fit)
// leaves only the rounding of fp32; exactly 0 for x < -126, -inf included: a masked score must
// leave a true zero, and no denormal. NaN stays NaN. Adding 1.5 * 2^23 rounds x to an integer that
// then sits in the low bits of the sum, ready to be shifted into the exponent: that is cheaper than
// a rounding and a conversion instruction.
HWY_ATTR inline Vector exp2(Vector x) {
  const hn::RebindToSigned<Lanes> i;
  const Vector shifted = hn::Add(x, splat(0x1.8p23f));
  const Vector r = hn::Sub(x, hn::Sub(shifted, splat(0x1.8p23f)));
  Vector p = splat(1.535336181e-4f);
  p = hn::MulAdd(p, r, splat(1.339887445e-3f));
  p = hn::MulAdd(p, r, splat(9.618437358e-3f));
  p = hn::MulAdd(p, r, splat(5.550332471e-2f));
  p = hn::MulAdd(p, r, splat(2.402264791e-1f));
  p = hn::MulAdd(p, r, splat(6.931472029e-1f));
  p = hn::MulAdd(p, r, splat(1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(i, shifted));
  const Vector scaled = hn::BitCast(Lanes(), hn::Add(hn::BitCast(i, p), exponent));
  return hn::IfThenZeroElse(hn::Lt(x, splat(-126.0f)), scaled);
}

// Computes kRows x (kVectors vectors) accumulators of a product: per step of the inner index,
// kVectors loads of B and kRows broadcasts of A feed kRows * kVectors fused multiply-adds.
template <int kRows, int kVectors>
HWY_ATTR inline void multiply_block(const Product& p, i64 row, i64 column) {
  const i64 lanes = lane_count();
  const float* a = p.a + row * p.a_row_stride;
  const float* b = p.b + column;
  float* c = p.c + row * p.ldc + column;
  Vector acc[kRows][kVectors];
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::Zero(Lanes());
  }
  for (i64 k = 0; k < p.inner; ++k) {
    Vector b_row[kVectors];
    for (int j = 0; j < kVectors; ++j) b_row[j] = load(b + j * lanes);
    for (int i = 0; i < kRows; ++i) {
      const Vector a_element = splat(a[i * p.a_row_stride]);
      for (int j = 0; j < kVectors; ++j) acc[i][j] = hn::MulAdd(a_element, b_row[j], acc[i][j]);
    }
    a += p.a_inner_stride;
    b += p.ldb;
  }
  // The old values join at the end: sums of a tile stay apart from the long sum over all tiles,
  // which keeps the rounding error of long rows small.
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kVectors; ++j) {
      float* place = c + i * p.ldc + j * lanes;
      if (p.accumulate == Accumulate::add) acc[i][j] = hn::Add(load(place), acc[i][j]);
      if (p.accumulate == Accumulate::rescaled) {
        acc[i][j] = hn::MulAdd(load(place), load(p.column_scale + column + j * lanes), acc[i][j]);
      }
      store(acc[i][j], place);
    }
  }
}

// This block fills the register file: 16 accumulators and their operands in 32 registers, 12 in
// 16.
#if HWY_TARGET <= HWY_AVX3
constexpr int kBlockRows = 4, kBlockVectors = 4;
#else
constexpr int kBlockRows = 6, kBlockVectors = 2;
#endif

template <int kVectors>
HWY_ATTR void multiply_columns(const Product& p, i64 column) {
  i64 row = 0;
  for (; row + kBlockRows <= p.rows; row += kBlockRows) {
    multiply_block<kBlockRows, kVectors>(p, row, column);
  }
  for (; row + 2 <= p.rows; row += 2) multiply_block<2, kVectors>(p, row, column);
  for (; row < p.rows; ++row) multiply_block<1, kVectors>(p, row, column);
}

HWY_ATTR void multiply(const Product& p) {
  const i64 lanes = lane_count();
  i64 column = 0;
  for (; column + kBlockVectors * lanes <= p.columns; column += kBlockVectors * lanes) {
    multiply_columns<kBlockVectors>(p, column);
  }
  for (; column < p.columns; column += lanes) multiply_columns<1>(p, column);
}

// The probabilities of this many keys are summed before they join the sum of the tile. Scores of
// few different values round the same way at every addition: summed one by one, the lse of a tile
// of 569 keys was off by 1.3 times its bound.
constexpr i64 kSummedKeys = 32;

// Compute scale_of_row() and scaled_max() of shared/softmax.h, of a row a lane.
HWY_ATTR inline Vector scale_of_rows(Vector row_max, float scale_log2) {
  return hn::IfThenElse(hn::Ge(hn::Abs(row_max), splat(kLargeMax)), splat(power_above(scale_log2)),
                        splat(scale_log2));
}
HWY_ATTR inline Vector scaled_max(Vector scores, float scale_log2) {
  return hn::Mul(scores, scale_of_rows(hn::Mul(scores, splat(scale_log2)), scale_log2));
}

// Takes kVectors columns of vectors at once: their chains of max and sum are independent.
template <int kVectors>
HWY_ATTR inline void softmax_columns(const SoftmaxStep& step, i64 column) {
  const i64 lanes = lane_count();
  const i64 keys = step.keys;
  const i64 ld = step.ld;
  float* scores = step.scores + column;
  Vector tile_max[kVectors];
  for (int j = 0; j < kVectors; ++j) tile_max[j] = splat(-kInfinity);
  for (i64 key = 0; key < keys; ++key) {
    for (int j = 0; j < kVectors; ++j) {
      tile_max[j] = hn::Max(tile_max[j], load(scores + key * ld + j * lanes));
    }
  }
  Vector scale[kVectors], reference[kVectors], sum[kVectors];
  for (int j = 0; j < kVectors; ++j) {
    const i64 at = column + j * lanes;
    const Vector old_max = load(step.row_max + at);
    const Vector new_max = hn::Max(old_max, scaled_max(tile_max[j], step.scale_log2));
    scale[j] = scale_of_rows(new_max, step.scale_log2);
    // A row that has seen no key yet subtracts 0 instead of -inf (shared/softmax.h finite_max).
    reference[j] = hn::IfThenZeroElse(hn::Eq(new_max, splat(-kInfinity)), new_max);
    const Vector rescale = exp2(hn::Sub(old_max, reference[j]));
    sum[j] = hn::Zero(Lanes());
    store(new_max, step.row_max + at);
    store(rescale, step.rescale + at);
  }
  for (i64 begin = 0; begin < keys; begin += kSummedKeys) {
    Vector part[kVectors];
    for (int j = 0; j < kVectors; ++j) part[j] = hn::Zero(Lanes());
    for (i64 key = begin; key < min(keys, begin + kSummedKeys); ++key) {
      for (int j = 0; j < kVectors; ++j) {
        float* place = scores + key * ld + j * lanes;
        const Vector p = exp2(hn::MulSub(load(place), scale[j], reference[j]));
        part[j] = hn::Add(part[j], p);
        store(p, place);
      }
    }
    for (int j = 0; j < kVectors; ++j) sum[j] = hn::Add(sum[j], part[j]);
  }
  for (int j = 0; j < kVectors; ++j) {
    const i64 at = column + j * lanes;
    store(hn::MulAdd(load(step.row_sum + at), load(step.rescale + at), sum[j]), step.row_sum + at);
  }
}

HWY_ATTR void softmax_step(const SoftmaxStep& step) {
  const i64 lanes = lane_count();
  i64 column = 0;
  for (; column + 4 * lanes <= step.columns; column += 4 * lanes) softmax_columns<4>(step, column);
  for (; column < step.columns; column += lanes) softmax_columns<1>(step, column);
}

// Blocks of kTileColumns x kTileColumns keep both sides in cache lines that are used whole.
HWY_ATTR void transpose(const Transpose& t) {
  for (i64 row = 0; row < t.rows; row += kTileColumns) {
    const i64 row_end = min(t.rows, row + kTileColumns);
    for (i64 column = 0; column < t.columns; ++column) {
      for (i64 r = row; r < row_end; ++r) {
        t.destination[column * t.destination_stride + r] = t.source[r * t.source_stride + column];
      }
    }
  }
}

// Returns the last vector of a row, filled up with `fill`.
HWY_ATTR inline Vector load_tail(const float* p, i64 n, float fill) {
  alignas(64) float buffer[kTileColumns];
  for (i64 i = 0; i < kTileColumns; ++i) buffer[i] = i < n ? p[i] : fill;
  return load(buffer);
}

HWY_ATTR inline void store_tail(Vector v, float* p, i64 n) {
  alignas(64) float buffer[kTileColumns];
  store(v, buffer);
  for (i64 i = 0; i < n; ++i) p[i] = buffer[i];
}

// Returns the largest lane. It avoids Highway's MaxOfLanes: its emulated target (1.0.3) starts from
// the lowest finite number, so a row of -inf would not be seen as one.
HWY_ATTR inline float largest_lane(Vector v) {
  alignas(64) float lanes[kTileColumns];
  store(v, lanes);
  float largest = lanes[0];
  for (std::size_t i = 1; i < hn::Lanes(Lanes()); ++i) largest = max(largest, lanes[i]);
  return largest;
}

HWY_ATTR float softmax_row(const float* scores, i64 n, float* probabilities) {
  const i64 lanes = lane_count();
  const i64 whole = n / lanes * lanes;
  const i64 tail = n - whole;
  Vector running = splat(-kInfinity);
  for (i64 j = 0; j < whole; j += lanes) running = hn::Max(running, load(scores + j));
  if (tail > 0) running = hn::Max(running, load_tail(scores + whole, tail, -kInfinity));
  const float row_max = largest_lane(running);
  const Vector scale = splat(kLog2E);
  const Vector reference = splat(finite_max(row_max));
  // Takes the difference first: a product has no fp32 number near it where scores are large.
  const auto exponentiate = [&](Vector score) HWY_ATTR {
    return exp2(hn::Mul(hn::Sub(score, reference), scale));
  };

  Vector total = hn::Zero(Lanes());
  for (i64 j = 0; j < whole; j += lanes) {
    const Vector p = exponentiate(load(scores + j));
    total = hn::Add(total, p);
    store(p, probabilities + j);
  }
  if (tail > 0) {
    const Vector last = load_tail(scores + whole, tail, -kInfinity);
    const Vector p = exponentiate(last);
    total = hn::Add(total, p);
    store_tail(p, probabilities + whole, tail);
  }
  const float sum = hn::GetLane(hn::SumOfLanes(Lanes(), total));
  if (sum == 0.0f) return -kInfinity;  // every probability is 0 already
  const float inverse = 1.0f / sum;
  for (i64 j = 0; j < whole; j += lanes) {
    store(hn::Mul(load(probabilities + j), splat(inverse)), probabilities + j);
  }
  for (i64 j = whole; j < n; ++j) probabilities[j] *= inverse;
  return row_max + log_f32(sum);
}

HWY_ATTR void recompute_p(const RecomputeP& step) {
  for (i64 row = 0; row < step.rows; ++row) {
    float* scores = step.scores + row * step.ld;
    const OnlineSoftmax state = {.max = step.row_max[row], .sum = step.row_sum[row]};
    const Vector scale = splat(scale_of_row(state.max, step.scale_log2));
    // A row that saw nothing has P = 0 whatever its scores: exp2(s - inf).
    const Vector reference = splat(state.sum == 0.0f ? kInfinity : state.max);
    const Vector inverse = splat(final_scale(state));
    for (i64 c = 0; c < step.columns; c += lane_count()) {
      const Vector p = exp2(hn::MulSub(load(scores + c), scale, reference));
      store(hn::Mul(p, inverse), scores + c);
    }
  }
}

HWY_ATTR void score_gradient(const ScoreGradient& step) {
  const hn::RebindToSigned<Lanes> bits;
  const Vector keep_scale = splat(step.keep_scale);
  for (i64 row = 0; row < step.rows; ++row) {
    const float* p = step.p + row * step.ldp;
    float* dp = step.dp + row * step.lddp;
    const Vector delta = splat(step.delta[row]);
    for (i64 c = 0; c < step.columns; c += lane_count()) {
      const Vector marked = load(p + c);
      // Tests P as an integer, since a dropped P may be -0.
      const auto dropped =
          hn::RebindMask(Lanes(), hn::Lt(hn::BitCast(bits, marked), hn::Zero(bits)));
      const Vector kept = hn::IfThenZeroElse(dropped, load(dp + c));
      store(hn::Mul(hn::Abs(marked), hn::MulSub(kept, keep_scale, delta)), dp + c);
    }
  }
}

// Forms a sum a lane, then the sum of the lanes: each rounds few additions.
HWY_ATTR void row_dots(const RowDots& step) {
  for (i64 row = 0; row < step.rows; ++row) {
    const float* a = step.a + row * step.lda;
    const float* b = step.b + row * step.ldb;
    Vector sum = hn::Zero(Lanes());
    i64 c = 0;
    for (; c + lane_count() <= step.columns; c += lane_count()) {
      sum = hn::MulAdd(load(a + c), load(b + c), sum);
    }
    if (c < step.columns) {
      const i64 tail = step.columns - c;
      sum = hn::MulAdd(load_tail(a + c, tail, 0.0f), load_tail(b + c, tail, 0.0f), sum);
    }
    step.dots[row] = hn::GetLane(hn::SumOfLanes(Lanes(), sum));
  }
}

constexpr const char* isa_name() {
#if HWY_TARGET == HWY_SCALAR || (defined(HWY_EMU128) && HWY_TARGET == HWY_EMU128)
  return "portable";
#elif HWY_ARCH_X86
  return HWY_TARGET <= HWY_AVX3   ? "avx512"
         : HWY_TARGET == HWY_AVX2 ? "avx2"
         : HWY_TARGET == HWY_SSE4 ? "sse4"
                                  : "sse2";
#else
  return "neon";
#endif
}

}  // namespace

const TileOps* tile_ops() {
  static const TileOps kOps = {.isa = isa_name(),
                               .multiply = multiply,
                               .softmax_step = softmax_step,
                               .transpose = transpose,
                               .softmax_row = softmax_row,
                               .recompute_p = recompute_p,
                               .score_gradient = score_gradient,
                               .row_dots = row_dots,
                               .drop = drop,
                               .f16 = f16_ops(),
                               .bf16 = bf16_ops()};
  return &kOps;
}

}  // namespace attnlab::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include <vector>

namespace attnlab::cpu {

HWY_EXPORT(tile_ops);

std::span<const TileOps* const> supported_tile_ops() {
  static const std::vector<const TileOps*> all = [] {
    std::vector<const TileOps*> found;
    const auto add = [&found](const TileOps* ops) {
      for (const TileOps* other : found) {
        if (std::string_view(other->isa) == ops->isa) return;  // variants of one set: the best one
      }
      found.push_back(ops);
    };
    // Lower bits are better targets. Narrowing what dispatch may choose from yields one at a time.
    for (i64 left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
      hwy::SetSupportedTargetsForTest(left & -left);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      add(HWY_DYNAMIC_DISPATCH(tile_ops)());
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return found;
  }();
  return all;
}

const TileOps* find_tile_ops(std::string_view isa) {
  for (const TileOps* ops : supported_tile_ops()) {
    if (isa == ops->isa) return ops;
  }
  return nullptr;
}

}  // namespace attnlab::cpu

#endif
