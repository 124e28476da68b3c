// Holds what the reference's kernels on a device get, the same for the host and the device.
#pragma once

#include "kernels/shared/philox.h"

namespace attnlab::reference::device {

enum class Stored : i32 { f32, f16, bf16 };

// Rows are some of one (batch, head) slice: which keys they see, and which of them dropout drops.
struct Rows {
  i64 first = 0;  // in the entry
  i64 count = 0;
  i64 keys = 0;          // of the entry in memory
  i64 visible_keys = 0;  // of those what padding leaves
  i64 diagonal = 0;      // row r is aligned with key r + diagonal
  i32 causal = 0;
  i32 windowed = 0;
  i64 left = 0;  // of the window; -1: unbounded
  i64 right = 0;
  const u8* blocks = nullptr;  // (blocks of rows, blocks_of_keys), 1: visible; null: no pattern
  i64 block_q = 1;
  i64 block_k = 1;
  i64 blocks_of_keys = 0;
  u32 threshold = 0;  // an element is dropped whose 16 bits are below it; 0: no dropout
  u32 slice = 0;      // batch * num_heads_q + head, in Philox's counter
  u64 seed = 0;
  double keep_scale = 1.0;
};

// Gathers rows of a tensor, as doubles and as fp32 in three ways; null stands for not wanted.
struct GatherArguments {
  const void* from = nullptr;  // the first row
  Stored stored = Stored::f32;
  i32 rounds_to_tf32 = 0;  // `factors` alone
  i64 stride = 0;          // elements from row to row
  i64 rows = 0;
  i64 columns = 0;
  double* exact = nullptr;
  float* factors = nullptr;  // as the twin's products take them
  float* sizes = nullptr;    // absolute values
  float* squares = nullptr;
};

// Turns scores of rows into their probabilities, in place.
struct SoftmaxArguments {
  Rows rows;
  double scale = 1.0;
  double* p = nullptr;        // (rows, keys)
  double* lse = nullptr;      // (rows), natural log; -inf where a row sees nothing
  double* largest = nullptr;  // (rows), the largest score; -inf likewise
};

struct TwinSoftmaxArguments {
  Rows rows;
  Stored stored = Stored::f32;
  i32 rounds_to_tf32 = 0;  // `pz` alone
  float scale = 1.0f;
  float* p = nullptr;   // (rows, keys), in place
  float* pz = nullptr;  // (rows, keys), after dropout, as a factor of products; may be p
  float* lse = nullptr;
};

// Finds the largest sum of each row over the keys that it sees, times scale: of |q_d k_jd|, of
// their squares.
struct ScoreBoundArguments {
  Rows rows;
  float scale = 1.0f;
  const float* sums = nullptr;  // (rows, keys)
  float* bounds = nullptr;      // (rows)
};

// ScoreSizes is what rounding is relative to in the scores of rows.
struct ScoreSizes {
  i64 head_dim = 1;
  const double* largest = nullptr;  // (rows), the largest score
  const float* bounds = nullptr;    // (rows), of sums of |q_d k_jd|
  const float* squares = nullptr;   // (rows), of sums of squares of q_d k_jd
};

// Makes P after dropout, and in fp32 the same times what large scores add to errors.
struct WeightArguments {
  Rows rows;
  ScoreSizes scores;
  const double* p = nullptr;  // (rows, keys)
  double* pz = nullptr;       // (rows, keys); null: there is no dropout
  float* sizes = nullptr;     // (rows, keys)
};

// Finds what rounding to f16 may do to P after dropout where P is subnormal.
struct SubnormalArguments {
  Rows rows;
  const double* p = nullptr;  // (rows, keys), before dropout
  float* errors = nullptr;    // (rows, keys)
};

// DeltaArguments is what enters dS of a row beside P and dP.
struct DeltaArguments {
  Rows rows;
  i64 columns = 0;
  // Elements of O (in TF32 of dO) and P are off by up to this, subnormal ones of O by half_step.
  float unit_roundoff = 0.0f;
  float half_step = 0.0f;
  const float* o_errors = nullptr;  // (rows, columns), besides; null: none
  const double* dout = nullptr;     // (rows, columns)
  const double* o = nullptr;        // (rows, columns)
  const double* p = nullptr;        // (rows, keys), before dropout
  const double* dp = nullptr;       // (rows, keys)
  double* delta = nullptr;          // (rows), sum of dO * O
  float* sizes = nullptr;           // (rows), sum of |dO * O|
  float* errors = nullptr;          // (rows), of delta
};

struct DifferentiateArguments {
  Rows rows;
  ScoreSizes scores;
  const double* p = nullptr;      // (rows, keys), before dropout
  double* ds = nullptr;           // (rows, keys), dP in place
  const double* delta = nullptr;  // (rows)
  const float* delta_sizes = nullptr;
  const float* delta_errors = nullptr;
  float* sizes = nullptr;    // (rows, keys), |dO| |V|^T in place, to those of dS
  float* errors = nullptr;   // (rows, keys), of dS because of delta
  float* squares = nullptr;  // (rows, keys), of them
};

struct TwinDifferentiateArguments {
  Rows rows;
  Stored stored = Stored::f32;
  i32 rounds_to_tf32 = 0;    // of the result
  const float* p = nullptr;  // (rows, keys), before dropout
  float* ds = nullptr;       // (rows, keys), dP in place
};

// Sets bytes to 1 for keys that any of the rows sees.
struct SeenArguments {
  Rows rows;
  u8* seen = nullptr;  // (keys)
};

// ErrorSums says how large many errors are.
struct ErrorSums {
  double largest = 0.0;
  double sum = 0.0;
  double sum_of_squares = 0.0;
};

// RowStatistics compares one row of an output (dk, dv: key) with the reference's.
struct RowStatistics {
  ErrorSums kernel, twin, delta;
  double kernel_along = 0.0;    // sum of (got - value) * value
  double twin_along = 0.0;      // sum of (twin - value) * value
  double rounded_along = 0.0;   // sum of (value rounded to the storage type - value) * value
  double unit = 0.0;            // the largest that the storage type loses around what is expected
  double sum_of_squares = 0.0;  // of what is expected
  double size = 0.0;            // the largest element of the product of absolute values
  // These columns have the largest error, and an element that is not 0 but must be.
  i64 worst_column = -1;
  double worst_got = 0.0;
  double worst_want = 0.0;
  i64 not_zero_column = -1;
  double not_zero_got = 0.0;
};

enum class DeltaForm : i32 { none, signed_sum, sum_of_squares };

struct CompareArguments {
  const void* got = nullptr;  // the first row
  Stored stored = Stored::f32;
  DeltaForm delta_form = DeltaForm::none;
  i64 stride = 0;  // elements from row to row
  i64 rows = 0;
  i64 columns = 0;
  double scale = 1.0;                   // of all that follow
  const double* value = nullptr;        // (rows, columns)
  const float* twin = nullptr;          // (rows, columns), sums that are scaled, then rounded
  const float* sizes = nullptr;         // (rows, columns)
  const float* delta = nullptr;         // (rows, columns)
  const double* lse = nullptr;          // (rows): rows of -inf must be 0; null: see `seen`
  const u8* seen = nullptr;             // (rows): those of 0 must be 0
  RowStatistics* statistics = nullptr;  // (rows)
};

// Counts how many elements are NaN, by the warp that found them.
struct NanArguments {
  const void* tensor = nullptr;
  Stored stored = Stored::f32;
  i64 elements = 0;
  i64* found = nullptr;  // (warps of the grid)
};

}  // namespace attnlab::reference::device
