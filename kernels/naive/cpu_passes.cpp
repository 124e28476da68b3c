// Implements naive's element-wise passes on the CPU: each reads and writes whole matrices.
#include "kernels/naive/cpu_passes.h"

#include <cstddef>

namespace attnlab::naive {

using cpu::Executor;
using cpu::GlobalRows;
using cpu::Tile;

FastMemory carve(cpu::TileCarver& carver, const Shape& shape) {
  return {.sRows = carver.tile(kPanelRows, shape.head_dim),
          .sKeys = carver.tile(kPanelKeys, shape.head_dim),
          .sKeysT = carver.tile(shape.head_dim, kPanelKeys),
          .sBlock = carver.tile(kPanelRows, kPanelKeys),
          .sRow = carver.tile(1, shape.seqlen_k),
          .sGradient = carver.tile(1, shape.seqlen_k),
          .sLse = carver.tile(1, kPanelRows),
          .sPartLse = carver.tile(kPanelRows, 1),
          .sPartsLse = carver.tile(1, key_panels(shape.seqlen_k))};
}

GlobalRows Slice::block(const Matrix& matrix, Range rows, Range keys) const {
  const Strides strides = matrix_strides(work_.shape);
  return {.operand = matrix.operand,
          .dtype = work_.problem.output_dtype(),
          .data = matrix.data,
          .offset = strides.offset(tensors_.batch(), tensors_.head(), rows.begin) + keys.begin,
          .row_stride = strides.row,
          .rows = rows.size(),
          .columns = keys.size()};
}

GlobalRows Slice::part_lse(Range rows, Range panels) const {
  const i64 stride = key_panels(work_.shape.seqlen_k);
  const i64 row = work_.shape.row_statistic_offset(tensors_.batch(), tensors_.head(), rows.begin);
  return {.operand = Operand::lse,
          .data = work_.part_lse,
          .offset = row * stride + panels.begin,
          .row_stride = stride,
          .rows = rows.size(),
          .columns = panels.size()};
}

namespace {

// Reads `source` block by block, changes each block with `change`, and writes it to `destination`.
template <class Change>
void for_each_block(const Slice& slice, Range rows, const Matrix& source, const Matrix& destination,
                    const FastMemory& fast, Executor& executor, const Change& change) {
  for (i64 key = 0; key < slice.keys().end; key += kPanelKeys) {
    const Range keys = intersect({key, key + kPanelKeys}, slice.keys());
    const Tile block = fast.sBlock.top(rows.size()).left(keys.size());
    executor.load(slice.block(source, rows, keys), block);
    change({.tile = block, .rows = rows, .keys = keys});
    executor.store(block, slice.block(destination, rows, keys));
  }
}

// Where P is 0, a key has no part in its row, however large its dP: 0 * inf must not enter the sum
// (dP of a hidden key may overflow a 16-bit type).
void clear_unseen(const Tile& p, const Tile& dp, const Executor& executor) {
  if (executor.counts_only()) return;
  for (i64 c = 0; c < p.columns; ++c) dp.data[c] = p.data[c] == 0.0f ? 0.0f : dp.data[c];
}

}  // namespace

// Sets S = -inf where the mask hides.
void mask_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
               Executor& executor) {
  for_each_block(slice, rows, work.s, work.s, fast, executor,
                 [&](const cpu::ScoreTile& s) { executor.hide(slice.mask(), s); });
}

// Computes P = softmax(S), lse.
void softmax_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                  Executor& executor) {
  const Tile row = fast.sRow.left(slice.keys().size());
  const Range panels = {0, key_panels(slice.keys().size())};
  const Tile parts = fast.sPartsLse.left(panels.size());
  for (i64 r = rows.begin; r < rows.end; ++r) {
    executor.load(slice.block(work.s, {r, r + 1}, slice.keys()), row);
    float lse = executor.softmax_row(row);
    executor.store(row, slice.block(work.p, {r, r + 1}, slice.keys()));
    if (!work.writes_lse) continue;
    if (work.problem.dtype != Dtype::f32) {
      executor.load(slice.part_lse({r, r + 1}, panels), parts);
      lse = executor.softmax_row(parts);
    }
    if (!executor.counts_only()) fast.sLse.data[r - rows.begin] = lse;
  }
  if (work.writes_lse) executor.store(fast.sLse, slice.tensors().lse(rows));
}

// Computes Pd = keep_scale * P, or 0 where dropout drops.
void dropout_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                  Executor& executor) {
  for_each_block(slice, rows, work.p, work.dropped_p, fast, executor, [&](const cpu::ScoreTile& p) {
    executor.drop(work.dropout, slice.index(), p);
    executor.scale(p.tile, work.dropout.keep_scale);
  });
}

// Computes dP = keep_scale * dP, or 0 where dropout dropped P.
void dropout_backward_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                           Executor& executor) {
  for_each_block(slice, rows, work.dp, work.dp, fast, executor, [&](const cpu::ScoreTile& dp) {
    executor.drop(work.dropout, slice.index(), dp);
    executor.scale(dp.tile, work.dropout.keep_scale);
  });
}

// Computes dS = P (dP - rowsum(P dP)).
void softmax_backward_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                           Executor& executor) {
  const Tile p = fast.sRow.left(slice.keys().size());
  const Tile dp = fast.sGradient.left(slice.keys().size());
  for (i64 r = rows.begin; r < rows.end; ++r) {
    float sum = 0.0f;
    executor.load(slice.block(work.p, {r, r + 1}, slice.keys()), p);
    executor.load(slice.block(work.dp, {r, r + 1}, slice.keys()), dp);
    clear_unseen(p, dp, executor);
    executor.row_dots(p, dp, &sum);
    executor.score_gradient(p, dp, &sum, 1.0f);
    executor.store(dp, slice.block(work.ds, {r, r + 1}, slice.keys()));
  }
}

}  // namespace attnlab::naive
