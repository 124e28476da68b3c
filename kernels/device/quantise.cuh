// Quantises on a GPU (sm_90), bit for bit as kernels/api/quantise.h does on a CPU: a block holds
// kScaleRows rows of a head in registers, rotates them there, and writes codes and scales. Its unit
// is compiled with --fmad=false, so that no operation is contracted.
#pragma once

#include "kernels/device/team.cuh"
#include "kernels/ptx/cvt.cuh"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/ptx/ld.cuh"
#include "kernels/shared/quantise_arguments.h"

namespace attnlab::device {

constexpr float kLargestF32 = 0x1.FFFFFEp127f;

// RowsOfBlock says which rows of one head a block works on: kScaleRows, some of them past the end.
struct RowsOfBlock {
  i64 b, h, block;
  i64 first;      // row, of its head
  i64 in_memory;  // rows that the head has
  i64 present;    // of these, those that the entry has: the others count as zeros
  i64 offset;     // of row `first` in the tensor
};

__device__ inline RowsOfBlock rows_of_block(const QuantiseArguments& of) {
  const u32 heads = static_cast<u32>(of.heads), blocks = static_cast<u32>(of.blocks);
  const u32 outer = blockIdx.x / heads;
  RowsOfBlock rows;
  rows.h = blockIdx.x % heads;
  rows.block = outer % blocks;
  rows.b = outer / blocks;
  rows.first = rows.block * kScaleRows;
  const BatchEntry entry = batch_entry(of.params, rows.b);
  const Strides& strides = of.is_query ? of.params.shape.q : of.params.shape.k;
  rows.in_memory = of.is_query ? entry.mask.seqlen_q : entry.mask.seqlen_k;
  rows.present = of.is_query ? entry.mask.seqlen_q : entry.mask.valid_k;
  const i64 first_of_entry = of.is_query ? entry.first_row : entry.first_key;
  rows.offset = strides.offset(rows.b, rows.h, first_of_entry + rows.first);
  return rows;
}

// RowsOfThread holds a thread's part of a block's rows. Columns that a row lacks are zeros.
template <QuantiserConfig kConfig>
struct RowsOfThread {
  float at[kConfig.rows()][kConfig.quads()][kQuad];

  static __device__ i32 row(i32 i) {
    return i * kConfig.row_distance() + static_cast<i32>(threadIdx.x) / kLanesOfRow;
  }
  static __device__ i32 column(i32 quad) {
    return kQuad * (static_cast<i32>(threadIdx.x) % kLanesOfRow + kLanesOfRow * quad);
  }
  static __device__ bool has_column(i32 quad) {
    return kConfig.head_dim % (kLanesOfRow * kQuad) == 0 || column(quad) < kConfig.head_dim;
  }
};

__device__ inline i64 row_stride(const QuantiseArguments& of) {
  return of.is_query ? of.params.shape.q.row : of.params.shape.k.row;
}

template <QuantiserConfig kConfig>
__device__ void load(const QuantiseArguments& of, const RowsOfBlock& rows,
                     RowsOfThread<kConfig>& values) {
  using Own = RowsOfThread<kConfig>;
#pragma unroll
  for (i32 i = 0; i < kConfig.rows(); ++i) {
    const bool is_present = rows.first + Own::row(i) < rows.present;
    const float* const from = of.values + rows.offset + Own::row(i) * row_stride(of);
#pragma unroll
    for (i32 j = 0; j < kConfig.quads(); ++j) {
      uint4 bits = {0, 0, 0, 0};
      if (is_present && Own::has_column(j)) {
        bits = ptx::ld_global_no_allocate_v4(reinterpret_cast<const uint4*>(from + Own::column(j)));
      }
      values.at[i][j][0] = bit_cast<float>(bits.x);
      values.at[i][j][1] = bit_cast<float>(bits.y);
      values.at[i][j][2] = bit_cast<float>(bits.z);
      values.at[i][j][3] = bit_cast<float>(bits.w);
    }
  }
}

// Rows that the entry does not have keep their zeros, which else might become -0.
template <QuantiserConfig kConfig>
__device__ void change_signs(const QuantiseArguments& of, const RowsOfBlock& rows,
                             RowsOfThread<kConfig>& values) {
  using Own = RowsOfThread<kConfig>;
  constexpr i32 kQuadsOfSigns = 128 / (kLanesOfRow * kQuad);
  const i64 head_kv = of.is_query ? of.params.shape.kv_head(rows.h) : rows.h;
  PhiloxCounter signs;
#pragma unroll
  for (i32 j = 0; j < kConfig.quads(); ++j) {
    if (j % kQuadsOfSigns == 0) signs = rotation_signs(of.key, head_kv, j / kQuadsOfSigns);
    const u32 of_quad = sign_bits(signs, j % kQuadsOfSigns) >> Own::column(0);
#pragma unroll
    for (i32 i = 0; i < kConfig.rows(); ++i) {
      const u32 sign_bit = rows.first + Own::row(i) < rows.present ? 0x80000000u : 0u;
#pragma unroll
      for (i32 c = 0; c < kQuad; ++c) {
        float& value = values.at[i][j][c];
        value = bit_cast<float>(bit_cast<u32>(value) ^ (of_quad << (31 - c) & sign_bit));
      }
    }
  }
}

__device__ inline void butterfly(float& lower, float& upper) {
  const float sum = lower + upper;
  upper = lower - upper;
  lower = sum;
}

// Does the butterfly of two lanes' values; the upper lane has that of the upper column. A
// product with 1 or -1 is exact, so the fma rounds as the addition does.
__device__ inline float butterfly_of_lanes(float value, i32 distance) {
  const float sign = (static_cast<i32>(threadIdx.x) & distance) != 0 ? -1.0f : 1.0f;
  return fmaf(sign, value, __shfl_xor_sync(0xFFFFFFFFu, value, distance));
}

// Rotates kWidth columns of a row, strides ascending: within a quad, between lanes, between the
// quads of a lane.
template <i32 kWidth>
__device__ void rotate_columns(float (*quads)[kQuad]) {
  constexpr i32 kColumnsOfLanes = kLanesOfRow * kQuad;
  constexpr i32 kQuads = ceil_div(kWidth, kColumnsOfLanes);
#pragma unroll
  for (i32 j = 0; j < kQuads; ++j) {
    butterfly(quads[j][0], quads[j][1]);
    butterfly(quads[j][2], quads[j][3]);
    butterfly(quads[j][0], quads[j][2]);
    butterfly(quads[j][1], quads[j][3]);
#pragma unroll
    for (i32 stride = kQuad; stride < min(kWidth, kColumnsOfLanes); stride *= 2) {
#pragma unroll
      for (i32 c = 0; c < kQuad; ++c) {
        quads[j][c] = butterfly_of_lanes(quads[j][c], stride / kQuad);
      }
    }
  }
#pragma unroll
  for (i32 distance = 1; distance < kQuads; distance *= 2) {
#pragma unroll
    for (i32 j = 0; j < kQuads; ++j) {
      if ((j & distance) != 0) continue;
#pragma unroll
      for (i32 c = 0; c < kQuad; ++c) butterfly(quads[j][c], quads[j + distance][c]);
    }
  }
#pragma unroll
  for (i32 j = 0; j < kQuads; ++j) {
#pragma unroll
    for (i32 c = 0; c < kQuad; ++c) quads[j][c] *= rotation_scale(kWidth);
  }
}

// Blocks of columns begin at whole numbers of quads of all lanes: only the last may be narrower.
template <i32 kHeadDim, i32 kBegin = 0>
__device__ void rotate_row(float (*quads)[kQuad]) {
  constexpr i32 kWidth = static_cast<i32>(rotation_block(kHeadDim, kBegin));
  static_assert(kBegin % (kLanesOfRow * kQuad) == 0);
  rotate_columns<kWidth>(quads + kBegin / (kLanesOfRow * kQuad));
  if constexpr (kBegin + kWidth < kHeadDim) rotate_row<kHeadDim, kBegin + kWidth>(quads);
}

// Returns the block's rows as they are quantised.
template <QuantiserConfig kConfig>
__device__ RowsOfThread<kConfig> read_rows(const QuantiseArguments& of, const RowsOfBlock& rows) {
  RowsOfThread<kConfig> values;
  load(of, rows, values);
  if constexpr (kConfig.rotates) {
    change_signs(of, rows, values);
#pragma unroll
    for (i32 i = 0; i < kConfig.rows(); ++i) rotate_row<kConfig.head_dim>(values.at[i]);
  }
  return values;
}

// Does what update_amax() does but for infinity, which finite() takes back. fmaxf passes over NaN.
__device__ inline float larger(float amax, float value) { return fmaxf(amax, fabsf(value)); }
__device__ inline float finite(float amax) { return min(amax, kLargestF32); }

// Returns amax of the whole block, in each of its threads.
template <QuantiserConfig kConfig>
__device__ float amax_of_block(const RowsOfThread<kConfig>& values) {
  float amax = 0.0f;
#pragma unroll
  for (i32 i = 0; i < kConfig.rows(); ++i) {
#pragma unroll
    for (i32 j = 0; j < kConfig.quads(); ++j) {
#pragma unroll
      for (i32 c = 0; c < kQuad; ++c) amax = larger(amax, values.at[i][j][c]);
    }
  }
  return finite(reduce_team<Maximum, kConfig.threads()>(amax));
}

// Returns amax of a column of a warp's rows, in the first lanes of its rows.
template <QuantiserConfig kConfig>
__device__ float amax_of_column(const RowsOfThread<kConfig>& values, i32 quad, i32 c) {
  float amax = 0.0f;
#pragma unroll
  for (i32 i = 0; i < kConfig.rows(); ++i) amax = larger(amax, values.at[i][quad][c]);
#pragma unroll
  for (i32 distance = kLanesOfRow; distance < kWarp; distance *= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, distance));
  }
  return finite(amax);
}

__device__ inline u32* amax_of_head(const QuantiseArguments& of, const RowsOfBlock& rows) {
  return of.amax + (rows.b * of.heads + rows.h) * of.amax_of_head;
}

// Raises amax by one atomic a column and block: the warps' results meet in shared memory before.
template <QuantiserConfig kConfig>
__device__ void raise_amax_of_columns(const RowsOfThread<kConfig>& values, u32* amax) {
  using Own = RowsOfThread<kConfig>;
  constexpr i32 kWarps = kConfig.threads() / kWarp;
  __shared__ float sAmax[kWarps][kConfig.head_dim];
  const i32 warp = static_cast<i32>(threadIdx.x) / kWarp;
  const bool is_first = static_cast<i32>(threadIdx.x) % kWarp < kLanesOfRow;
#pragma unroll
  for (i32 j = 0; j < kConfig.quads(); ++j) {
#pragma unroll
    for (i32 c = 0; c < kQuad; ++c) {
      const float of_warp = amax_of_column(values, j, c);
      if (is_first && Own::has_column(j)) sAmax[warp][Own::column(j) + c] = of_warp;
    }
  }
  __syncthreads();
  const i32 column = static_cast<i32>(threadIdx.x);
  if (column >= kConfig.head_dim) return;
  float of_block = 0.0f;
  for (i32 w = 0; w < kWarps; ++w) of_block = fmaxf(of_block, sAmax[w][column]);
  atomicMax(amax + column, bit_cast<u32>(of_block));
}

template <QuantiserConfig kConfig>
__device__ void raise_amax(const QuantiseArguments& of, const RowsOfBlock& rows) {
  const RowsOfThread<kConfig> values = read_rows<kConfig>(of, rows);
  u32* const amax = amax_of_head(of, rows);
  if constexpr (kConfig.has_columns) {
    raise_amax_of_columns(values, amax);
  } else {
    const float of_block = amax_of_block(values);
    if (threadIdx.x == 0) atomicMax(amax, bit_cast<u32>(of_block));
  }
}

// Runs before quantise_rows() where blocks of rows have no scales of their own. It waits for the
// kernel in front only so that whoever waits for this one has waited for both.
template <QuantiserConfig kConfig>
__device__ void find_amax(const QuantiseArguments& of) {
  ptx::griddepcontrol_launch_dependents();
  const RowsOfBlock rows = rows_of_block(of);
  if (rows.first < rows.present) raise_amax<kConfig>(of, rows);
  ptx::griddepcontrol_wait();
}

// Multipliers holds what values are multiplied with: one a column, or one for all of the block.
template <QuantiserConfig kConfig>
struct Multipliers {
  float of_rows = 0.0f;
  const float* sOfColumns = nullptr;
  __device__ float of(i32 column) const {
    return kConfig.has_columns ? sOfColumns[column] : of_rows;
  }
};

// Finds the scales of columns, a thread each, and writes them: the first block of a head does.
template <QuantiserConfig kConfig>
__device__ Multipliers<kConfig> scale_columns(const QuantiseArguments& of,
                                              const RowsOfBlock& rows) {
  __shared__ float sMultipliers[kConfig.head_dim];
  const i32 column = static_cast<i32>(threadIdx.x);
  if (column < kConfig.head_dim) {
    const float scale = e4m3_scale(bit_cast<float>(amax_of_head(of, rows)[column]));
    if (rows.block == 0) {
      of.scales[(rows.b * of.heads + rows.h) * kConfig.head_dim + column] = scale;
    }
    sMultipliers[column] = e4m3_multiplier(scale);
  }
  __syncthreads();
  return {.sOfColumns = sMultipliers};
}

// Finds the scale of the block's rows, and writes it: 1 of those past the end.
template <QuantiserConfig kConfig>
__device__ Multipliers<kConfig> scale_rows(const QuantiseArguments& of, const RowsOfBlock& rows,
                                           const RowsOfThread<kConfig>& values) {
  const i64 seqlen = of.is_query ? of.params.shape.seqlen_q : of.params.shape.seqlen_k;
  const i64 blocks = ceil_div(seqlen, kScaleRows);
  float amax = 0.0f;
  if constexpr (kConfig.has_block_scales) {
    amax = amax_of_block(values);
  } else {
    amax = bit_cast<float>(*amax_of_head(of, rows));
  }
  const float scale = rows.first < rows.present ? e4m3_scale(amax) : 1.0f;
  if (threadIdx.x == 0 && rows.block < blocks) {
    of.scales[(rows.b * of.heads + rows.h) * blocks + rows.block] = scale;
  }
  return {.of_rows = e4m3_multiplier(scale)};
}

// Returns a row's quad as codes, its first column in the low byte.
template <QuantiserConfig kConfig>
__device__ u32 codes_of_quad(const RowsOfThread<kConfig>& values,
                             const Multipliers<kConfig>& multipliers, i32 i, i32 j) {
  const float(&quad)[kQuad] = values.at[i][j];
  const i32 column = RowsOfThread<kConfig>::column(j);
  const u32 low = ptx::cvt_rn_satfinite_e4m3x2_f32(quad[0] * multipliers.of(column),
                                                   quad[1] * multipliers.of(column + 1));
  const u32 high = ptx::cvt_rn_satfinite_e4m3x2_f32(quad[2] * multipliers.of(column + 2),
                                                    quad[3] * multipliers.of(column + 3));
  return low | high << 16;
}

// CodesOfBlock lays out V's codes of a block on their way to V^T, a word a quad. Groups of 16 keys
// are 4 words further apart than their rows, and rows 8: so neither eight lanes that go down the
// groups nor four rows of a warp meet in a bank.
template <QuantiserConfig kConfig>
struct CodesOfBlock {
  static constexpr i32 kWords = kConfig.head_dim / kQuad;
  static constexpr i32 kStride = kWords + 8;
  static constexpr i32 kSize =
      static_cast<i32>(kScaleRows) * kStride + static_cast<i32>(kScaleRows) / 16 * 4;
  static __device__ i32 place(i32 key, i32 word) { return key * kStride + key / 16 * 4 + word; }
};

// Transposes four words of four bytes each as a matrix, in place.
__device__ inline void transpose_bytes(u32 (&words)[4]) {
  const u32 a = __byte_perm(words[0], words[1], 0x5140),
            b = __byte_perm(words[2], words[3], 0x5140);
  const u32 c = __byte_perm(words[0], words[1], 0x7362),
            d = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(a, b, 0x5410);
  words[1] = __byte_perm(a, b, 0x7632);
  words[2] = __byte_perm(c, d, 0x5410);
  words[3] = __byte_perm(c, d, 0x7632);
}

// PlaceInTransposed says where the block's keys of column 0 lie in V^T, and how far apart columns
// are.
struct PlaceInTransposed {
  i64 offset, stride;
  bool exists;  // packed entries have room for one block more, or not
};

__device__ inline PlaceInTransposed place_in_transposed(const QuantiseArguments& of,
                                                        const RowsOfBlock& rows, i64 head_dim) {
  const i64 column = rows.h * head_dim;
  const i32* const cu_seqlens = of.params.cu_seqlens_k;
  if (cu_seqlens == nullptr) {
    const i64 keys = round_up(of.params.shape.seqlen_k, kScaleRows);
    return {(rows.b * of.heads * head_dim + column) * keys + rows.first, keys, true};
  }
  const i64 keys = first_transposed_key(cu_seqlens[of.params.shape.batch], of.params.shape.batch);
  const i64 begin = first_transposed_key(cu_seqlens[rows.b], rows.b) + rows.first;
  const i64 end = first_transposed_key(cu_seqlens[rows.b + 1], rows.b + 1);
  return {column * keys + begin, keys, begin < end};
}

// Writes the block's part of V^T. A thread takes 16 keys of a quad of columns.
template <QuantiserConfig kConfig>
__device__ void store_transposed(const u32* sCodes, const PlaceInTransposed& place, u8* to) {
  using Codes = CodesOfBlock<kConfig>;
  constexpr i32 kGroups = static_cast<i32>(kScaleRows) / 16;
  for (i32 i = static_cast<i32>(threadIdx.x); i < kGroups * Codes::kWords; i += kConfig.threads()) {
    const i32 group = i % kGroups, word = i / kGroups;
    u32 slots[kQuad][4];  // of a column, 16 keys each
#pragma unroll
    for (i32 four = 0; four < 4; ++four) {
      u32 codes[4];
#pragma unroll
      for (i32 s = 0; s < 4; ++s) {
        const i32 key = static_cast<i32>(key_of_slot(4 * four + s));
        codes[s] = sCodes[Codes::place(16 * group + key, word)];
      }
      transpose_bytes(codes);
#pragma unroll
      for (i32 c = 0; c < kQuad; ++c) slots[c][four] = codes[c];
    }
#pragma unroll
    for (i32 c = 0; c < kQuad; ++c) {
      u8* const chunk = to + place.offset + (word * kQuad + c) * place.stride + 16 * group;
      *reinterpret_cast<uint4*>(chunk) = {slots[c][0], slots[c][1], slots[c][2], slots[c][3]};
    }
  }
}

// Writes the codes of the rows that are in memory, and V^T of all.
template <QuantiserConfig kConfig>
__device__ void store_codes(const QuantiseArguments& of, const RowsOfBlock& rows,
                            const RowsOfThread<kConfig>& values,
                            const Multipliers<kConfig>& multipliers) {
  using Own = RowsOfThread<kConfig>;
  using Codes = CodesOfBlock<kConfig>;
  __shared__ u32 sCodes[kConfig.transposes ? Codes::kSize : 1];
#pragma unroll
  for (i32 i = 0; i < kConfig.rows(); ++i) {
    const bool is_in_memory = rows.first + Own::row(i) < rows.in_memory;
    u8* const to = of.codes + rows.offset + Own::row(i) * row_stride(of);
#pragma unroll
    for (i32 j = 0; j < kConfig.quads(); ++j) {
      if (!Own::has_column(j)) continue;
      const u32 codes = codes_of_quad(values, multipliers, i, j);
      if (is_in_memory) *reinterpret_cast<u32*>(to + Own::column(j)) = codes;
      if constexpr (kConfig.transposes) {
        sCodes[Codes::place(Own::row(i), Own::column(j) / kQuad)] = codes;
      }
    }
  }
  if constexpr (kConfig.transposes) {
    __syncthreads();
    const PlaceInTransposed place = place_in_transposed(of, rows, kConfig.head_dim);
    if (place.exists) store_transposed<kConfig>(sCodes, place, of.transposed);
  }
}

// Reads its rows while the kernel in front ends, which may be find_amax().
template <QuantiserConfig kConfig>
__device__ void quantise_rows(const QuantiseArguments& of) {
  ptx::griddepcontrol_launch_dependents();
  const RowsOfBlock rows = rows_of_block(of);
  const RowsOfThread<kConfig> values = read_rows<kConfig>(of, rows);
  ptx::griddepcontrol_wait();
  Multipliers<kConfig> multipliers;
  if constexpr (kConfig.has_columns) {
    multipliers = scale_columns<kConfig>(of, rows);
  } else {
    multipliers = scale_rows<kConfig>(of, rows, values);
  }
  store_codes(of, rows, values, multipliers);
}

}  // namespace attnlab::device
