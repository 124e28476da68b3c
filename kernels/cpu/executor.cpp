#include "kernels/cpu/executor.h"

#include <algorithm>
#include <cmath>

#include "kernels/shared/quantise.h"
#include "kernels/shared/softmax.h"

namespace attnlab::cpu {
namespace {

float* f32_row(const GlobalRows& rows, i64 r) {
  return static_cast<float*>(rows.data) + rows.offset + r * rows.row_stride;
}

u16* half_row(const GlobalRows& rows, i64 r) {
  return static_cast<u16*>(rows.data) + rows.offset + r * rows.row_stride;
}

// Computes code * scale, in fp32.
void decode_e4m3(const GlobalRows& rows, i64 r, float* to) {
  const u8* const codes = static_cast<const u8*>(rows.data) + rows.offset + r * rows.row_stride;
  const Scales& scales = rows.scales;
  const i64 block = (scales.first_row + r) / kScaleRows;
  for (i64 c = 0; c < rows.columns; ++c) {
    to[c] = f32_from_e4m3(codes[c]) * scales.data[scales.of_columns ? c : block];
  }
}

void round_p_to_e4m3(float* p, i64 count) {
  constexpr float kShift = 1 << static_cast<int>(kShiftOfP);
  for (i64 c = 0; c < count; ++c) p[c] = f32_from_e4m3(e4m3_from_f32(p[c] * kShift)) / kShift;
}

const HalfOps& half_ops(const TileOps& ops, Dtype dtype) {
  return dtype == Dtype::f16 ? ops.f16 : ops.bf16;
}

Drop drop_of(const Dropout& dropout, i64 slice, const ScoreTile& p, DropAction action) {
  return {.dropout = dropout,
          .slice = slice,
          .rows = p.rows,
          .keys = p.keys,
          .orientation = p.orientation,
          .action = action,
          .p = p.tile.data,
          .ld = p.tile.ld};
}

}  // namespace

Tile TileCarver::tile(i64 rows, i64 columns) {
  const i64 ld = round_up(columns, kTileColumns);
  float* data = base_ == nullptr ? nullptr : base_ + used_;
  used_ += rows * ld;
  return {.data = data, .rows = rows, .columns = columns, .ld = ld};
}

void Executor::load(const GlobalRows& source, const Tile& tile) {
  count_read(source.operand, source.rows * source.columns * size_bytes(source.dtype));
  if (counts_only()) return;
  for (i64 r = 0; r < source.rows; ++r) {
    float* to = tile.data + r * tile.ld;
    if (source.dtype == Dtype::f32) {
      std::copy_n(f32_row(source, r), source.columns, to);
    } else if (source.dtype == Dtype::e4m3) {
      decode_e4m3(source, r, to);
    } else {
      half_ops(*ops_, source.dtype).decode(half_row(source, r), source.columns, to);
    }
    std::fill(to + source.columns, to + tile.ld, 0.0f);
  }
  std::fill(tile.data + source.rows * tile.ld, tile.data + tile.rows * tile.ld, 0.0f);
}

void Executor::store(const Tile& tile, const GlobalRows& destination) {
  count_write(destination.operand,
              destination.rows * destination.columns * size_bytes(destination.dtype));
  if (counts_only()) return;
  for (i64 r = 0; r < destination.rows; ++r) {
    const float* from = tile.data + r * tile.ld;
    if (destination.dtype == Dtype::f32) {
      std::copy_n(from, destination.columns, f32_row(destination, r));
    } else {
      half_ops(*ops_, destination.dtype)
          .encode(from, destination.columns, half_row(destination, r));
    }
  }
}

void Executor::accumulate(const Tile& tile, const GlobalRows& destination) {
  const i64 bytes = destination.rows * destination.columns * size_bytes(Dtype::f32);
  count_read(destination.operand, bytes);
  count_write(destination.operand, bytes);
  if (counts_only()) return;
  for (i64 r = 0; r < destination.rows; ++r) {
    const float* from = tile.data + r * tile.ld;
    float* to = f32_row(destination, r);
    for (i64 c = 0; c < destination.columns; ++c) to[c] += from[c];
  }
}

void Executor::visit(TileClass tile_class, const Tiling& tiling, i64 head_dim, int products) {
  switch (tile_class) {
    case TileClass::empty: ++traffic_.tiles.empty; return;
    case TileClass::partial: ++traffic_.tiles.partial; break;
    case TileClass::full: ++traffic_.tiles.full; break;
  }
  count_flops(i64{2} * products * tiling.block_m * tiling.block_n * head_dim);
}

void Executor::multiply(const FactorA& a, const Tile& b, const Tile& c, Accumulate accumulate,
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

void Executor::hide(const Mask& mask, const ScoreTile& scores) const {
  if (counts_only()) return;
  // Lines of the tile are keys or rows; what a line hides is at most two ends and some pattern
  // blocks, each an interval.
  const bool by_rows = scores.orientation == Orientation::rows_by_keys;
  const Range lines = by_rows ? scores.rows : scores.keys;
  const Range along = by_rows ? scores.keys : scores.rows;
  const i64 block = by_rows ? mask.blocks.block_k : mask.blocks.block_q;
  for (i64 line = lines.begin; line < lines.end; ++line) {
    float* values = scores.tile.data + (line - lines.begin) * scores.tile.ld;
    const auto hide_between = [&](i64 begin, i64 end) {
      if (begin >= end) return;
      std::fill(values + begin - along.begin, values + end - along.begin, -kInfinity);
    };
    const Range seen = intersect(by_rows ? band(mask, line) : band_rows(mask, line), along);
    if (seen.empty()) {
      hide_between(along.begin, along.end);
      continue;
    }
    hide_between(along.begin, seen.begin);
    hide_between(seen.end, along.end);
    if (mask.blocks.visible == nullptr) continue;
    for (i64 at = seen.begin; at < seen.end;) {
      const i64 next = min(seen.end, round_up(at + 1, block));
      if (!block_visible(mask.blocks, by_rows ? line : at, by_rows ? at : line)) {
        hide_between(at, next);
      }
      at = next;
    }
  }
}

void Executor::drop(const Dropout& dropout, i64 slice, const ScoreTile& p) const {
  if (!counts_only()) ops_->drop(drop_of(dropout, slice, p, DropAction::clear));
}

void Executor::mark_dropped(const Dropout& dropout, i64 slice, const ScoreTile& p) const {
  if (!counts_only()) ops_->drop(drop_of(dropout, slice, p, DropAction::mark));
}

void Executor::recompute_p(const Tile& scores, float scale_log2, const RowState& state) const {
  if (counts_only()) return;
  ops_->recompute_p({.rows = scores.rows,
                     .columns = round_up(scores.columns, kTileColumns),
                     .scale_log2 = scale_log2,
                     .scores = scores.data,
                     .ld = scores.ld,
                     .row_max = state.max,
                     .row_sum = state.sum});
}

void Executor::score_gradient(const Tile& p, const Tile& dp, const float* delta,
                              float keep_scale) const {
  if (counts_only()) return;
  ops_->score_gradient({.rows = p.rows,
                        .columns = round_up(p.columns, kTileColumns),
                        .p = p.data,
                        .ldp = p.ld,
                        .dp = dp.data,
                        .lddp = dp.ld,
                        .delta = delta,
                        .keep_scale = keep_scale});
}

void Executor::clear_dropped(const Tile& p) const {
  if (counts_only()) return;
  for (i64 r = 0; r < p.rows; ++r) {
    float* values = p.data + r * p.ld;
    for (i64 c = 0; c < p.columns; ++c) values[c] = std::signbit(values[c]) ? 0.0f : values[c];
  }
}

void Executor::row_dots(const Tile& a, const Tile& b, float* dots) const {
  if (counts_only()) return;
  ops_->row_dots({.rows = a.rows,
                  .columns = a.columns,
                  .a = a.data,
                  .lda = a.ld,
                  .b = b.data,
                  .ldb = b.ld,
                  .dots = dots});
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

void Executor::round(const Tile& tile, Dtype dtype) const {
  if (counts_only() || dtype == Dtype::f32) return;
  for (i64 r = 0; r < tile.rows; ++r) {
    float* const row = tile.data + r * tile.ld;
    const i64 columns = round_up(tile.columns, kTileColumns);
    if (dtype == Dtype::e4m3) {
      round_p_to_e4m3(row, columns);
    } else {
      half_ops(*ops_, dtype).round(row, columns);
    }
  }
}

void Executor::finish_rows(const Tile& accumulator, const RowState& state, const Shape& shape,
                           float keep_scale) const {
  if (counts_only()) return;
  for (i64 r = 0; r < accumulator.columns; ++r) {
    const OnlineSoftmax row = {.max = state.max[r], .sum = state.sum[r]};
    state.max[r] = lse(row, shape);
    state.sum[r] = final_scale(row) * keep_scale;
  }
  for (i64 i = 0; i < accumulator.rows; ++i) {
    float* values = accumulator.data + i * accumulator.ld;
    for (i64 r = 0; r < accumulator.columns; ++r) values[r] *= state.sum[r];
  }
}

}  // namespace attnlab::cpu
