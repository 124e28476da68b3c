// Says what the kernels that quantise a tensor get of a launch (kernels/device/quantise.cuh), the
// same for the host and the GPU, and how their threads share a block of kScaleRows rows.
#pragma once

#include "kernels/shared/params.h"
#include "kernels/shared/quantise.h"

namespace attnlab {

// Eight lanes share a row: lane l has the quads l, l + 8, l + 16, ... of it, four columns each. So
// loads and stores of a warp are whole sectors of 32 bytes, and three of the rotation's strides go
// through shuffles.
constexpr i32 kQuad = 4;
constexpr i32 kLanesOfRow = 8;

struct QuantiserConfig {
  i32 head_dim = 64;              // a multiple of 16
  bool rotates = false;           // Q and K
  bool transposes = false;        // V
  bool has_block_scales = false;  // a block finds its own scale; else a kernel before found amax
  bool has_columns = false;       // columns have scales, else rows; not with has_block_scales

  // Threads are so few that each has up to 64 values: what it does beside them counts little. Of a
  // multiprocessor's blocks one stores while another loads; above head_dim 128 there is one.
  ATTNLAB_HD constexpr i32 threads() const { return 512 / blocks(); }
  ATTNLAB_HD constexpr i32 blocks() const { return head_dim <= 64 ? 4 : head_dim <= 128 ? 2 : 1; }

  // These say how many rows a thread has, how far apart, and how many quads of each.
  ATTNLAB_HD constexpr i32 row_distance() const { return threads() / kLanesOfRow; }
  ATTNLAB_HD constexpr i32 rows() const { return static_cast<i32>(kScaleRows) / row_distance(); }
  ATTNLAB_HD constexpr i32 quads() const { return ceil_div(head_dim, kLanesOfRow * kQuad); }
};

// A grid has a block for each kScaleRows rows of each head of each entry, heads innermost: what
// lies side by side in memory is read at about one time.
struct QuantiseArguments {
  Params params;
  PhiloxKey key;  // of the rotation's signs
  bool is_query = false;
  i64 heads = 0;
  i64 blocks = 0;  // of an entry, in the grid: those of scales, and of packed V one more
  const float* values = nullptr;
  u8* codes = nullptr;
  u8* transposed = nullptr;  // V^T, of V
  float* scales = nullptr;
  // Points to amax, where blocks have no scales: of the tensor, of each head, or of its columns, as
  // bits, which are ordered as the numbers are. All are zeros before the kernel that finds them.
  u32* amax = nullptr;
  i64 amax_of_head = 0;  // how many belong to a head; 0: all heads have one
};

}  // namespace attnlab
