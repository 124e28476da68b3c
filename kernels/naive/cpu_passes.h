// Declares naive's passes on the CPU: element-wise ones over panels of rows, a library's products.
#pragma once

#include <vector>

#include "kernels/cpu/runner.h"
#include "kernels/naive/schedule.h"

namespace attnlab::naive {

// FastMemory is the fast memory of one worker.
struct FastMemory {
  cpu::Tile sRows;      // (kPanelRows, head_dim): Q or dO; O or dQ being accumulated
  cpu::Tile sKeys;      // (kPanelKeys, head_dim): K or V; dK or dV being accumulated
  cpu::Tile sKeysT;     // (head_dim, kPanelKeys): K^T or V^T
  cpu::Tile sBlock;     // (kPanelRows, kPanelKeys): a block of a matrix
  cpu::Tile sRow;       // (1, seqlen_k): a row of S or P
  cpu::Tile sGradient;  // (1, seqlen_k): a row of dP
  cpu::Tile sLse;       // (1, kPanelRows)
  cpu::Tile sPartLse;   // (kPanelRows, 1): lse of a block
  cpu::Tile sPartsLse;  // (1, key_panels): lse of a row's blocks
};

FastMemory carve(cpu::TileCarver& carver, const Shape& shape);

// Matrix is a matrix in HBM, as an operand. `data` is null when only counting.
struct Matrix {
  Operand operand;
  void* data = nullptr;
};

// Work is what all passes see.
struct Work {
  const Problem& problem;
  Shape shape;
  Dropout dropout;
  Matrix s{Operand::s};
  Matrix p{Operand::p};
  Matrix dropped_p{Operand::p};  // Pd; the same as p without dropout
  Matrix dp{Operand::dp};
  Matrix ds{Operand::ds};
  bool writes_lse = true;
  float* part_lse = nullptr;  // (batch, num_heads_q, seqlen_q, key_panels), see Epilogue
};

// Slice is one (batch, query head): its tensors and its part of the matrices.
class Slice {
 public:
  Slice(const Work& work, const cpu::SliceTensors& tensors) : work_(work), tensors_(tensors) {}

  const Mask& mask() const { return tensors_.mask(); }
  const cpu::SliceTensors& tensors() const { return tensors_; }
  i64 index() const { return tensors_.index(); }
  Range rows() const { return {0, mask().seqlen_q}; }
  Range keys() const { return {0, mask().seqlen_k}; }

  cpu::GlobalRows block(const Matrix& matrix, Range rows, Range keys) const;
  cpu::GlobalRows part_lse(Range rows, Range panels) const;

 private:
  const Work& work_;
  const cpu::SliceTensors& tensors_;
};

// These passes are element-wise, for one panel of rows (any rows when only counting).
using ElementWisePass = void (*)(const Work& work, const Slice& slice, Range rows,
                                 const FastMemory& fast, cpu::Executor& executor);
void mask_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
               cpu::Executor& executor);
void softmax_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                  cpu::Executor& executor);
void dropout_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                  cpu::Executor& executor);
void dropout_backward_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                           cpu::Executor& executor);
void softmax_backward_rows(const Work& work, const Slice& slice, Range rows, const FastMemory& fast,
                           cpu::Executor& executor);

// The products do what a library does: blocked for the caches, full speed, so each takes its
// operands from HBM once, whatever the blocking inside reads again. That is what count() counts;
// run() gets an executor whose counts nobody reads.

// Returns q, k, ... of a slice.
using Rows = cpu::GlobalRows (cpu::SliceTensors::*)(Range) const;

// Eager frameworks do not compute lse, and from scores rounded to 16 bits it would be wrong by
// 2^-9 of the scores. So with 16-bit storage the product that has the scores in fp32 also leaves
// the lse of each row of each block, after the mask, and the softmax pass merges them. The matrices
// are as without it. In fp32 the softmax pass finds lse from S itself.
enum class Epilogue : u8 { none, part_lse };

// Computes result = scale * left right^T, for one panel of keys: S, dP. It scales the sum, not a
// factor: equal sums remain equal, and no rounding is added to each product.
struct ScoreProduct {
  Rows left;
  Rows right;
  float scale = 1.0f;
  Matrix result;
  Epilogue epilogue = Epilogue::none;
};
void run(const ScoreProduct& product, const Work& work, const Slice& slice, Range keys,
         const FastMemory& fast, cpu::Executor& library);
void count(const ScoreProduct& product, const Slice& slice, cpu::Executor& executor);

// Computes result = scale * left right, for one panel of rows: O, dQ.
struct RowProduct {
  Matrix left;
  Rows right;
  float scale = 1.0f;
  Rows result;
};
void run(const RowProduct& product, const Slice& slice, Range rows, const FastMemory& fast,
         cpu::Executor& library);
void count(const RowProduct& product, const Slice& slice, cpu::Executor& executor);

// Computes result = scale * left^T right, for one panel of keys: dK, dV. The inner dimension runs
// over the rows of all query heads that share the K/V head (`group`), so their sum is in fp32.
struct KeyProduct {
  Matrix left;
  Rows right;
  float scale = 1.0f;
  Rows result;
};
void run(const KeyProduct& product, const std::vector<Slice>& group, Range keys,
         const FastMemory& fast, cpu::Executor& library);
void count(const KeyProduct& product, const std::vector<Slice>& group, cpu::Executor& executor);

}  // namespace attnlab::naive
