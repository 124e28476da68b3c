// Implements naive's products on the CPU: blocked so that what a block takes again lies in caches.
#include "kernels/naive/cpu_passes.h"

namespace attnlab::naive {

using cpu::Accumulate;
using cpu::Executor;
using cpu::GlobalRows;
using cpu::Tile;

namespace {

void count_read(const GlobalRows& operand, Executor& executor) {
  executor.count_read(operand.operand, operand.rows * operand.columns * size_bytes(operand.dtype));
}

void count_write(const GlobalRows& operand, Executor& executor) {
  executor.count_write(operand.operand, operand.rows * operand.columns * size_bytes(operand.dtype));
}

// Counts the FLOPs of a product of a slice's matrix (as a factor or the result) with `operand`.
void count_flops(const Slice& slice, const GlobalRows& operand, Executor& executor) {
  executor.count_flops(2 * slice.rows().size() * slice.keys().size() * operand.columns);
}

// Stores the lse of each row of a block of fp32 scores, which are lost.
void store_part_lse(const Work& work, const Slice& slice, const cpu::ScoreTile& scores,
                    const FastMemory& fast, Executor& library) {
  if (!work.problem.mask.is_none()) library.hide(slice.mask(), scores);
  for (i64 r = 0; r < scores.tile.rows; ++r) {
    Tile row = scores.tile.top(1);
    row.data += r * row.ld;
    fast.sPartLse.data[r * fast.sPartLse.ld] = library.softmax_row(row);
  }
  const i64 key_panel = scores.keys.begin / kPanelKeys;
  library.store(fast.sPartLse, slice.part_lse(scores.rows, {key_panel, key_panel + 1}));
}

}  // namespace

void run(const ScoreProduct& product, const Work& work, const Slice& slice, Range keys,
         const FastMemory& fast, Executor& library) {
  library.load((slice.tensors().*product.right)(keys), fast.sKeys);
  library.transpose(fast.sKeys, fast.sKeysT);
  for (i64 row = 0; row < slice.rows().end; row += kPanelRows) {
    const Range rows = intersect({row, row + kPanelRows}, slice.rows());
    const Tile block = fast.sBlock.top(rows.size()).left(keys.size());
    library.load((slice.tensors().*product.left)(rows), fast.sRows);
    library.multiply(fast.sRows.top(rows.size()), fast.sKeysT, block);
    library.scale(block, product.scale);
    library.store(block, slice.block(product.result, rows, keys));
    if (product.epilogue == Epilogue::part_lse) {
      store_part_lse(work, slice, {.tile = block, .rows = rows, .keys = keys}, fast, library);
    }
  }
}

void count(const ScoreProduct& product, const Slice& slice, Executor& executor) {
  const GlobalRows right = (slice.tensors().*product.right)(slice.keys());
  count_read((slice.tensors().*product.left)(slice.rows()), executor);
  count_read(right, executor);
  count_flops(slice, right, executor);
  count_write(slice.block(product.result, slice.rows(), slice.keys()), executor);
  if (product.epilogue == Epilogue::part_lse) {
    count_write(slice.part_lse(slice.rows(), {0, key_panels(slice.keys().size())}), executor);
  }
}

void run(const RowProduct& product, const Slice& slice, Range rows, const FastMemory& fast,
         Executor& library) {
  library.fill(fast.sRows, 0.0f);
  for (i64 key = 0; key < slice.keys().end; key += kPanelKeys) {
    const Range keys = intersect({key, key + kPanelKeys}, slice.keys());
    const Tile block = fast.sBlock.top(rows.size()).left(keys.size());
    library.load(slice.block(product.left, rows, keys), block);
    library.load((slice.tensors().*product.right)(keys), fast.sKeys);
    library.multiply(block, fast.sKeys, fast.sRows, Accumulate::add);
  }
  library.scale(fast.sRows, product.scale);
  library.store(fast.sRows, (slice.tensors().*product.result)(rows));
}

void count(const RowProduct& product, const Slice& slice, Executor& executor) {
  const GlobalRows right = (slice.tensors().*product.right)(slice.keys());
  count_read(slice.block(product.left, slice.rows(), slice.keys()), executor);
  count_read(right, executor);
  count_flops(slice, right, executor);
  count_write((slice.tensors().*product.result)(slice.rows()), executor);
}

void run(const KeyProduct& product, const std::vector<Slice>& group, Range keys,
         const FastMemory& fast, Executor& library) {
  library.fill(fast.sKeys, 0.0f);
  for (const Slice& slice : group) {
    for (i64 row = 0; row < slice.rows().end; row += kPanelRows) {
      const Range rows = intersect({row, row + kPanelRows}, slice.rows());
      const Tile block = fast.sBlock.top(rows.size()).left(keys.size());
      library.load(slice.block(product.left, rows, keys), block);
      library.load((slice.tensors().*product.right)(rows), fast.sRows);
      library.multiply(transposed(block), fast.sRows, fast.sKeys, Accumulate::add);
    }
  }
  library.scale(fast.sKeys, product.scale);
  library.store(fast.sKeys, (group.front().tensors().*product.result)(keys));
}

void count(const KeyProduct& product, const std::vector<Slice>& group, Executor& executor) {
  for (const Slice& slice : group) {
    const GlobalRows right = (slice.tensors().*product.right)(slice.rows());
    count_read(slice.block(product.left, slice.rows(), slice.keys()), executor);
    count_read(right, executor);
    count_flops(slice, right, executor);
  }
  const Slice& first = group.front();
  count_write((first.tensors().*product.result)(first.keys()), executor);
}

}  // namespace attnlab::naive
