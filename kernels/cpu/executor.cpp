#include "kernels/cpu/executor.h"

#include <algorithm>

#include "kernels/shared/softmax.h"

namespace attnlab::cpu {
namespace {

constexpr i64 kElementBytes = sizeof(float);

}  // namespace

GlobalRows slice_rows(Operand operand, const void* data, const Strides& strides, i64 b, i64 h,
                      Range rows, i64 head_dim) {
  return {.operand = operand,
          .data = const_cast<void*>(data),  // store() is only handed outputs
          .offset = strides.offset(b, h, rows.begin),
          .row_stride = strides.row,
          .rows = rows.size(),
          .columns = head_dim};
}

GlobalRows statistic_row(Operand operand, const float* data, i64 offset, Range rows) {
  return {.operand = operand,
          .data = const_cast<float*>(data),
          .offset = offset + rows.begin,
          .row_stride = rows.size(),
          .rows = 1,
          .columns = rows.size()};
}

Tile TileCarver::tile(i64 rows, i64 columns) {
  const i64 ld = round_up(columns, kTileColumns);
  float* data = base_ == nullptr ? nullptr : base_ + used_;
  used_ += rows * ld;
  return {.data = data, .rows = rows, .columns = columns, .ld = ld};
}

void Executor::load(const GlobalRows& source, const Tile& tile) {
  count_read(source.operand, source.rows * source.columns * kElementBytes);
  if (counts_only()) return;
  const float* from = static_cast<const float*>(source.data) + source.offset;
  for (i64 r = 0; r < source.rows; ++r) {
    float* to = tile.data + r * tile.ld;
    std::copy_n(from + r * source.row_stride, source.columns, to);
    std::fill(to + source.columns, to + tile.ld, 0.0f);
  }
  std::fill(tile.data + source.rows * tile.ld, tile.data + tile.rows * tile.ld, 0.0f);
}

void Executor::store(const Tile& tile, const GlobalRows& destination) {
  count_write(destination.operand, destination.rows * destination.columns * kElementBytes);
  if (counts_only()) return;
  float* to = static_cast<float*>(destination.data) + destination.offset;
  for (i64 r = 0; r < destination.rows; ++r) {
    std::copy_n(tile.data + r * tile.ld, destination.columns, to + r * destination.row_stride);
  }
}

void Executor::visit(TileClass tile_class, const Tiling& tiling, i64 head_dim) {
  switch (tile_class) {
    case TileClass::empty: ++traffic_.tiles.empty; return;
    case TileClass::partial: ++traffic_.tiles.partial; break;
    case TileClass::full: ++traffic_.tiles.full; break;
  }
  count_flops(i64{4} * tiling.block_m * tiling.block_n * head_dim);
}

void Executor::multiply(const LeftFactor& a, const Tile& b, const Tile& c, Accumulate accumulate,
                        const float* column_scale) const {
  if (counts_only()) return;
  ops_->multiply({.rows = a.is_transposed ? a.tile.columns : a.tile.rows,
                  .columns = round_up(c.columns, kTileColumns),
                  .inner = a.is_transposed ? a.tile.rows : a.tile.columns,
                  .a = a.tile.data,
                  .a_row_stride = a.is_transposed ? 1 : a.tile.ld,
                  .a_inner_stride = a.is_transposed ? a.tile.ld : 1,
                  .b = b.data,
                  .ldb = b.ld,
                  .c = c.data,
                  .ldc = c.ld,
                  .accumulate = accumulate,
                  .column_scale = column_scale});
}

void Executor::softmax_step(const Tile& scores, float scale_log2, const RowState& state) const {
  if (counts_only()) return;
  ops_->softmax_step({.keys = scores.rows,
                      .columns = scores.ld,
                      .scale_log2 = scale_log2,
                      .scores = scores.data,
                      .ld = scores.ld,
                      .row_max = state.max,
                      .row_sum = state.sum,
                      .rescale = state.rescale});
}

void Executor::transpose(const Tile& source, const Tile& destination) const {
  if (counts_only()) return;
  ops_->transpose({.rows = source.rows,
                   .columns = source.columns,
                   .source = source.data,
                   .source_stride = source.ld,
                   .destination = destination.data,
                   .destination_stride = destination.ld});
}

void Executor::hide(const Mask& mask, Range rows, Range keys, const Tile& scores) const {
  if (counts_only()) return;
  for (i64 c = keys.begin; c < keys.end; ++c) {
    float* row_scores = scores.data + (c - keys.begin) * scores.ld;  // of key c, one a query row
    const auto hide_rows = [&](i64 begin, i64 end) {
      for (i64 r = begin; r < end; ++r) row_scores[r - rows.begin] = -kInfinity;
    };
    const Range seeing = intersect(band_rows(mask, c), rows);
    if (seeing.empty()) {
      hide_rows(rows.begin, rows.end);
      continue;
    }
    hide_rows(rows.begin, seeing.begin);
    hide_rows(seeing.end, rows.end);
    if (mask.blocks.visible == nullptr) continue;
    for (i64 r = seeing.begin; r < seeing.end;) {
      const i64 next = min(seeing.end, round_up(r + 1, static_cast<i64>(mask.blocks.block_q)));
      if (!block_visible(mask.blocks, r, c)) hide_rows(r, next);
      r = next;
    }
  }
}

void Executor::hide_row(const Mask& mask, i64 r, const Tile& scores) const {
  if (counts_only()) return;
  const auto hide_keys = [&scores](i64 begin, i64 end) {
    for (i64 c = begin; c < end; ++c) scores.data[c] = -kInfinity;
  };
  const Range seen = band(mask, r);
  if (seen.empty()) return hide_keys(0, scores.columns);
  hide_keys(0, seen.begin);
  hide_keys(seen.end, scores.columns);
  if (mask.blocks.visible == nullptr) return;
  for (i64 c = seen.begin; c < seen.end;) {
    const i64 next = min(seen.end, round_up(c + 1, static_cast<i64>(mask.blocks.block_k)));
    if (!block_visible(mask.blocks, r, c)) hide_keys(c, next);
    c = next;
  }
}

float Executor::softmax_row(const Tile& scores) const {
  if (counts_only()) return 0.0f;
  return ops_->softmax_row(scores.data, scores.columns, scores.data);
}

void Executor::scale(const Tile& tile, float factor) const {
  if (counts_only()) return;
  for (i64 i = 0; i < tile.rows * tile.ld; ++i) tile.data[i] *= factor;
}

void Executor::fill(const Tile& tile, float value) const {
  if (!counts_only()) std::fill_n(tile.data, tile.rows * tile.ld, value);
}

void Executor::finish_rows(const Tile& accumulator, const RowState& state) const {
  if (counts_only()) return;
  for (i64 r = 0; r < accumulator.columns; ++r) {
    const OnlineSoftmax row = {.max = state.max[r], .sum = state.sum[r]};
    state.max[r] = lse(row);
    state.sum[r] = final_scale(row);
  }
  for (i64 i = 0; i < accumulator.rows; ++i) {
    float* values = accumulator.data + i * accumulator.ld;
    for (i64 r = 0; r < accumulator.columns; ++r) values[r] *= state.sum[r];
  }
}

}  // namespace attnlab::cpu
