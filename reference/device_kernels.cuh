// Holds the kernels of the reference on a device: attention materialized in double, its twin, and
// the sums that the tolerance rule weighs. They are plain and share no text with the kernels that
// they judge but the bare Philox function and the rounding of types: masks, dropout and layouts are
// written here once more. reference/oracle_*.cpp, twin.cpp and rounding.cpp say the same for the
// CPU.
//
// Threads go through elements with the stride of the grid, or a block of kThreads works on a row.
#pragma once

#include "kernels/shared/convert.h"
#include "reference/device_arguments.h"

namespace attnlab::reference::device {

constexpr i32 kWarp = 32;
constexpr i32 kThreads = 256;
constexpr i32 kWarps = kThreads / kWarp;
// One unit of score_bound, or of S, adds this to the errors of a row.
constexpr float kScoreShare = 0x1p-5f;

__device__ inline double infinity() { return bit_cast<double>(u64{0x7FF0000000000000ul}); }

// Fate is that of an element of P: masked, or dropped, or kept.
enum class Fate : i32 { masked, dropped, kept };

// Returns whether the row sees the key; `row` counts from rows.first.
__device__ inline bool sees(const Rows& rows, i64 row, i64 key) {
  const i64 absolute = rows.first + row;
  const i64 aligned = absolute + rows.diagonal;
  if (key >= rows.visible_keys) return false;
  if (rows.causal != 0 && key > aligned) return false;
  if (rows.windowed != 0) {
    if (rows.left != -1 && key < aligned - rows.left) return false;
    if (rows.right != -1 && key > aligned + rows.right) return false;
  }
  if (rows.blocks == nullptr) return true;
  return rows.blocks[absolute / rows.block_q * rows.blocks_of_keys + key / rows.block_k] != 0;
}

// 16 x 16 elements of P are four quadrants of 8 x 8. One call gives the numbers of a pair of
// columns in all four: a quadrant has its word, the columns have its halves.
__device__ inline bool keeps(const Rows& rows, i64 row, i64 key) {
  if (rows.threshold == 0) return true;
  const i64 absolute = rows.first + row;
  const u32 i = static_cast<u32>(absolute % 16), j = static_cast<u32>(key % 16);
  const PhiloxCounter random = philox({.x = static_cast<u32>(key / 16),
                                       .y = static_cast<u32>(absolute / 16),
                                       .z = rows.slice,
                                       .w = i % 8 * 4 + j % 8 / 2},
                                      philox_key(rows.seed));
  const u32 left = i < 8 ? random.x : random.y, right = i < 8 ? random.z : random.w;
  const u32 word = j < 8 ? left : right;
  return (j % 2 == 0 ? word % 65536 : word / 65536) >= rows.threshold;
}

__device__ inline Fate fate(const Rows& rows, i64 row, i64 key) {
  if (!sees(rows, row, key)) return Fate::masked;
  return keeps(rows, row, key) ? Fate::kept : Fate::dropped;
}

__device__ inline float load(const void* from, Stored stored, i64 index) {
  if (stored == Stored::f32) return static_cast<const float*>(from)[index];
  const u16 bits = static_cast<const u16*>(from)[index];
  return stored == Stored::f16 ? f32_from_f16(bits) : f32_from_bf16(bits);
}

__device__ inline float rounded(Stored stored, float value) {
  if (stored == Stored::f16) return f32_from_f16(f16_from_f32(value));
  if (stored == Stored::bf16) return f32_from_bf16(bf16_from_f32(value));
  return value;
}

// Returns the nearest value with 10 explicit bits of mantissa, of two the even one.
__device__ inline float tf32(float value) {
  const u32 bits = bit_cast<u32>(value);
  if ((bits & 0x7F800000u) == 0x7F800000u) return value;
  return bit_cast<float>((bits + 0xFFFu + (bits >> 13 & 1u)) & ~0x1FFFu);
}

// Returns what storage loses around a value: |((r + 0.3) - 0.3) - r|, each step rounded.
__device__ inline double rounding_unit(Stored stored, double value) {
  const float r = rounded(stored, static_cast<float>(value));
  const float offset = rounded(stored, 0.3f);
  const float there = rounded(stored, r + offset);
  return fabs(static_cast<double>(rounded(stored, there - offset)) - static_cast<double>(r));
}

// Combines the values of all threads of the block; each gets the same.
template <class Scalar, class Combine>
__device__ Scalar over_block(Scalar mine, const Combine& combine) {
  __shared__ Scalar parts[kWarps];
  for (i32 lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    mine = combine(mine, __shfl_xor_sync(0xFFFFFFFFu, mine, lanes));
  }
  __syncthreads();  // the parts of a call before are read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = mine;
  __syncthreads();
  Scalar all = parts[0];
  for (i32 warp = 1; warp < kWarps; ++warp) all = combine(all, parts[warp]);
  return all;
}

template <class Scalar>
__device__ Scalar sum_of_block(Scalar mine) {
  return over_block(mine, [](Scalar a, Scalar b) { return a + b; });
}
template <class Scalar>
__device__ Scalar max_of_block(Scalar mine) {
  return over_block(mine, [](Scalar a, Scalar b) { return a < b ? b : a; });
}

// Calls f(row, key, index) for each element of a (rows, keys) matrix.
template <class Function>
__device__ void for_each(i64 rows, i64 keys, const Function& f) {
  const i64 stride = static_cast<i64>(gridDim.x) * kThreads;
  for (i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; i < rows * keys;
       i += stride) {
    f(i / keys, i % keys, i);
  }
}

__device__ inline void gather(const GatherArguments& to) {
  for_each(to.rows, to.columns, [&](i64 row, i64 column, i64 i) {
    const float value = load(to.from, to.stored, row * to.stride + column);
    if (to.exact != nullptr) to.exact[i] = static_cast<double>(value);
    if (to.factors != nullptr) to.factors[i] = to.rounds_to_tf32 != 0 ? tf32(value) : value;
    if (to.sizes != nullptr) to.sizes[i] = fabsf(value);
    if (to.squares != nullptr) to.squares[i] = value * value;
  });
}

// Does softmax of scores; a block has a row.
__device__ inline void softmax(const SoftmaxArguments& of) {
  const i64 row = blockIdx.x;
  double* const p = of.p + row * of.rows.keys;
  double largest = -infinity();
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    p[key] = sees(of.rows, row, key) ? of.scale * p[key] : -infinity();
    largest = p[key] > largest ? p[key] : largest;
  }
  largest = max_of_block(largest);
  double sum = 0.0;
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    p[key] = sees(of.rows, row, key) ? exp(p[key] - largest) : 0.0;
    sum += p[key];
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) {
    of.lse[row] = sum == 0.0 ? largest : largest + log(sum);
    of.largest[row] = largest;
  }
  if (sum == 0.0) return;  // sees nothing
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) p[key] /= sum;
}

// Does the twin's softmax; a block has a row.
__device__ inline void twin_softmax(const TwinSoftmaxArguments& of) {
  const i64 row = blockIdx.x;
  float* const p = of.p + row * of.rows.keys;
  float* const pz = of.pz + row * of.rows.keys;
  float largest = -static_cast<float>(infinity());
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    if (!sees(of.rows, row, key)) continue;
    p[key] = rounded(of.stored, of.scale * p[key]);
    largest = p[key] > largest ? p[key] : largest;
  }
  largest = max_of_block(largest);
  float sum = 0.0f;
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    p[key] = sees(of.rows, row, key) ? expf(p[key] - largest) : 0.0f;
    sum += p[key];
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) of.lse[row] = sum == 0.0f ? largest : largest + logf(sum);
  const float keep_scale = static_cast<float>(of.rows.keep_scale);
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    const float before = sum == 0.0f ? 0.0f : rounded(of.stored, p[key] / sum);
    p[key] = before;
    if (of.pz == of.p) continue;
    float after = before;
    if (of.rows.threshold != 0) {
      const bool is_kept = fate(of.rows, row, key) == Fate::kept;
      after = is_kept ? rounded(of.stored, before * keep_scale) : 0.0f;
    }
    pz[key] = of.rounds_to_tf32 != 0 ? tf32(after) : after;
  }
}

// A block works on a row as kernels on e4m3 do: it rounds no score, shifts P by 2^8, rounds it to
// e4m3 and sums what was not rounded. P keeps the factor 1 / sum.
__device__ inline void twin_softmax_e4m3(const TwinSoftmaxArguments& of) {
  constexpr double kShift = 0x1p8;
  const i64 row = blockIdx.x;
  float* const p = of.p + row * of.rows.keys;
  const double scale = static_cast<double>(of.scale);
  double largest = -infinity();
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    const double score = scale * static_cast<double>(p[key]);
    if (sees(of.rows, row, key) && score > largest) largest = score;
  }
  largest = max_of_block(largest);
  double sum = 0.0;
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    const double score = scale * static_cast<double>(p[key]);
    const double shifted = sees(of.rows, row, key) ? kShift * exp(score - largest) : 0.0;
    sum += shifted;
    p[key] = f32_from_e4m3(e4m3_from_f32(static_cast<float>(shifted)));
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) {
    of.lse[row] = static_cast<float>(sum == 0.0 ? largest : largest + log(sum / kShift));
  }
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    p[key] = sum == 0.0 ? 0.0f : static_cast<float>(static_cast<double>(p[key]) / sum);
  }
}

// Bounds the scores; a block has a row.
__device__ inline void bound_scores(const ScoreBoundArguments& of) {
  const i64 row = blockIdx.x;
  float largest = 0.0f;
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    const float size = of.sums[row * of.rows.keys + key];
    if (sees(of.rows, row, key) && size > largest) largest = size;
  }
  largest = max_of_block(largest);
  if (threadIdx.x == 0) of.bounds[row] = of.scale * largest;
}

// Returns f of reference/tolerance.h.
__device__ inline float score_factor(const ScoreSizes& scores, i64 row) {
  const float bound = scores.bounds[row];
  if (!(bound > 0.0f)) return 1.0f;  // sees nothing, or scores that are 0 exactly
  const double score = fabs(scores.largest[row]);
  // No norm is larger than the sum of sizes; its squares may overflow.
  const double norm = static_cast<double>(fminf(sqrtf(scores.squares[row]), bound));
  const double of_one = (score * score + score * norm + norm * norm) / 3.0;
  const double sum = sqrt(static_cast<double>(scores.head_dim) * of_one);
  return fmaxf(1.0f + kScoreShare * bound, kScoreShare * static_cast<float>(sum));
}

__device__ inline void weigh(const WeightArguments& of) {
  for_each(of.rows.count, of.rows.keys, [&](i64 row, i64 key, i64 i) {
    const double kept = keeps(of.rows, row, key) ? of.p[i] * of.rows.keep_scale : 0.0;
    if (of.pz != nullptr) of.pz[i] = kept;
    of.sizes[i] = static_cast<float>(kept) * score_factor(of.scores, row);
  });
}

__device__ inline void find_subnormal(const SubnormalArguments& of) {
  constexpr double kSmallestNormal = 0x1p-14, kHalfStep = 0x1p-25;
  for_each(of.rows.count, of.rows.keys, [&](i64 row, i64 key, i64 i) {
    const double p = of.p[i];
    const double error = p >= kSmallestNormal ? 0.0 : p < kHalfStep ? p : kHalfStep;
    of.errors[i] = keeps(of.rows, row, key) ? static_cast<float>(of.rows.keep_scale * error) : 0.0f;
  });
}

// Sums delta; a block has a row.
__device__ inline void sum_delta(const DeltaArguments& of) {
  const i64 row = blockIdx.x;
  const i64 first = row * of.columns;
  double sum = 0.0, size = 0.0, squares = 0.0;
  for (i64 column = threadIdx.x; column < of.columns; column += kThreads) {
    const i64 i = first + column;
    const double product = of.dout[i] * of.o[i];
    sum += product;
    size += fabs(product);
    const double o = fabs(of.o[i]);
    double error = of.unit_roundoff * o > of.half_step ? of.unit_roundoff * o : of.half_step;
    error = error < o ? error : o;
    if (of.o_errors != nullptr) error += static_cast<double>(of.o_errors[i]);
    squares += of.dout[i] * error * (of.dout[i] * error);
  }
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    if (!keeps(of.rows, row, key)) continue;
    const i64 i = row * of.rows.keys + key;
    const double error = of.unit_roundoff * of.p[i] * of.rows.keep_scale * of.dp[i];
    squares += error * error;
  }
  sum = sum_of_block(sum);
  size = sum_of_block(size);
  squares = sum_of_block(squares);
  if (threadIdx.x != 0) return;
  of.delta[row] = sum;
  of.sizes[row] = static_cast<float>(size);
  of.errors[row] = static_cast<float>(sqrt(squares));
}

__device__ inline void differentiate(const DifferentiateArguments& of) {
  for_each(of.rows.count, of.rows.keys, [&](i64 row, i64 key, i64 i) {
    const double z = keeps(of.rows, row, key) ? of.rows.keep_scale : 0.0;
    const double p = of.p[i];
    of.ds[i] = p * (z * of.ds[i] - of.delta[row]);
    const float size = static_cast<float>(p) * score_factor(of.scores, row);
    of.sizes[i] = size * (static_cast<float>(z) * of.sizes[i] + of.delta_sizes[row]);
    const float error = static_cast<float>(p) * of.delta_errors[row];
    of.errors[i] = error;
    of.squares[i] = error * error;
  });
}

// Makes the twin's dS; a block has a row.
__device__ inline void twin_differentiate(const TwinDifferentiateArguments& of) {
  const i64 row = blockIdx.x;
  const float* const p = of.p + row * of.rows.keys;
  float* const ds = of.ds + row * of.rows.keys;
  const float keep_scale = static_cast<float>(of.rows.keep_scale);
  float sum = 0.0f;
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    const bool is_kept = fate(of.rows, row, key) == Fate::kept;
    const float dp = rounded(of.stored, ds[key]);
    ds[key] = is_kept ? rounded(of.stored, dp * keep_scale) : 0.0f;
    sum += p[key] * ds[key];
  }
  sum = sum_of_block(sum);
  for (i64 key = threadIdx.x; key < of.rows.keys; key += kThreads) {
    const float value = rounded(of.stored, p[key] * (ds[key] - sum));
    ds[key] = of.rounds_to_tf32 != 0 ? tf32(value) : value;
  }
}

// Marks keys that are seen; a thread has a key.
__device__ inline void mark_seen(const SeenArguments& of) {
  const i64 key = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  if (key >= of.rows.keys) return;
  for (i64 row = 0; row < of.rows.count; ++row) {
    if (!sees(of.rows, row, key)) continue;
    of.seen[key] = 1;
    return;
  }
}

__device__ inline void add_error(ErrorSums& sums, double error) {
  sums.largest = error > sums.largest ? error : sums.largest;
  sums.sum += error;
  sums.sum_of_squares += error * error;
}

__device__ inline void over_warp(ErrorSums& sums, i32 lanes) {
  const double largest = __shfl_xor_sync(0xFFFFFFFFu, sums.largest, lanes);
  sums.largest = largest > sums.largest ? largest : sums.largest;
  sums.sum += __shfl_xor_sync(0xFFFFFFFFu, sums.sum, lanes);
  sums.sum_of_squares += __shfl_xor_sync(0xFFFFFFFFu, sums.sum_of_squares, lanes);
}

// Returns |got - want|; infinite if either is not finite and they differ, or is NaN.
__device__ inline double error_of(double got, double want) {
  if (got == want) return 0.0;
  const double difference = fabs(got - want);
  return difference < infinity() ? difference : infinity();
}

__device__ inline double delta_of(DeltaForm form, const float* delta, i64 i) {
  switch (form) {
    case DeltaForm::none: return 0.0;
    case DeltaForm::signed_sum: return fabs(static_cast<double>(delta[i]));
    case DeltaForm::sum_of_squares: return sqrt(static_cast<double>(delta[i]));
  }
  return 0.0;
}

// Keeps what the other lane found if its error is larger, or as large in an earlier column.
__device__ inline void keep_worse(RowStatistics& mine, i32 lanes) {
  const double own = mine.worst_column < 0 ? -1.0 : error_of(mine.worst_got, mine.worst_want);
  const double other = __shfl_xor_sync(0xFFFFFFFFu, own, lanes);
  const i64 column = __shfl_xor_sync(0xFFFFFFFFu, mine.worst_column, lanes);
  const double got = __shfl_xor_sync(0xFFFFFFFFu, mine.worst_got, lanes);
  const double want = __shfl_xor_sync(0xFFFFFFFFu, mine.worst_want, lanes);
  if (other > own || (other == own && column < mine.worst_column)) {
    mine.worst_column = column;
    mine.worst_got = got;
    mine.worst_want = want;
  }
  const i64 not_zero = __shfl_xor_sync(0xFFFFFFFFu, mine.not_zero_column, lanes);
  const double not_zero_got = __shfl_xor_sync(0xFFFFFFFFu, mine.not_zero_got, lanes);
  if (not_zero > mine.not_zero_column) {
    mine.not_zero_column = not_zero;
    mine.not_zero_got = not_zero_got;
  }
}

// Compares rows; a warp has a row.
__device__ inline void compare(const CompareArguments& of) {
  const i64 row = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const i64 lane = threadIdx.x % kWarp;
  if (row >= of.rows) return;
  const bool must_be_zero = of.lse != nullptr ? of.lse[row] == -infinity() : of.seen[row] == 0;
  RowStatistics all;
  for (i64 column = lane; column < of.columns; column += kWarp) {
    const i64 i = row * of.columns + column;
    const double want = of.scale * of.value[i];
    const double got = static_cast<double>(load(of.got, of.stored, row * of.stride + column));
    const double error = error_of(got, want);
    if (all.worst_column < 0 || error > all.kernel.largest) {
      all.worst_column = column;
      all.worst_got = got;
      all.worst_want = want;
    }
    if (must_be_zero && got != 0.0) {
      all.not_zero_column = column;
      all.not_zero_got = got;
    }
    const float twin = rounded(of.stored, static_cast<float>(of.scale) * of.twin[i]);
    add_error(all.kernel, error);
    const double twin_error = static_cast<double>(twin) - want;
    add_error(all.twin, fabs(twin_error));
    all.kernel_along += (got - want) * want;
    all.twin_along += twin_error * want;
    const float nearest = rounded(of.stored, static_cast<float>(want));
    all.rounded_along += (static_cast<double>(nearest) - want) * want;
    add_error(all.delta, of.scale * delta_of(of.delta_form, of.delta, i));
    const double unit = rounding_unit(of.stored, want);
    all.unit = unit > all.unit ? unit : all.unit;
    all.sum_of_squares += want * want;
    const double size = of.scale * static_cast<double>(of.sizes[i]);
    all.size = size > all.size ? size : all.size;
  }
  for (i32 lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    keep_worse(all, lanes);
    over_warp(all.kernel, lanes);
    over_warp(all.twin, lanes);
    over_warp(all.delta, lanes);
    const double unit = __shfl_xor_sync(0xFFFFFFFFu, all.unit, lanes);
    all.unit = unit > all.unit ? unit : all.unit;
    all.kernel_along += __shfl_xor_sync(0xFFFFFFFFu, all.kernel_along, lanes);
    all.twin_along += __shfl_xor_sync(0xFFFFFFFFu, all.twin_along, lanes);
    all.rounded_along += __shfl_xor_sync(0xFFFFFFFFu, all.rounded_along, lanes);
    all.sum_of_squares += __shfl_xor_sync(0xFFFFFFFFu, all.sum_of_squares, lanes);
    const double size = __shfl_xor_sync(0xFFFFFFFFu, all.size, lanes);
    all.size = size > all.size ? size : all.size;
  }
  if (lane == 0) of.statistics[row] = all;
}

__device__ inline void count_nan(const NanArguments& of) {
  const i64 warp = static_cast<i64>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const i64 stride = static_cast<i64>(gridDim.x) * kThreads;
  i64 found = 0;
  for (i64 i = warp * kWarp + threadIdx.x % kWarp; i < of.elements; i += stride) {
    const float value = load(of.tensor, of.stored, i);
    found += value != value ? 1 : 0;
  }
  for (i32 lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    found += __shfl_xor_sync(0xFFFFFFFFu, found, lanes);
  }
  if (threadIdx.x % kWarp == 0) of.found[warp] = found;
}

}  // namespace attnlab::reference::device
