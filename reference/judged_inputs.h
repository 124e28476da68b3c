// Makes the inputs that a kernel is judged by: those of the problem or, of e4m3, what its codes
// stand for.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"
#include "reference/storage.h"

namespace attnlab::reference {

// JudgedInputs quantises q, k and v of an e4m3 problem by itself, from the definition, and keeps
// code * scale of every element in fp32; Q and K stay rotated, which changes no score. It shares
// the conversion of types and the bare Philox function with the laboratory's quantisation, nothing
// else. Other problems keep their tensors.
class JudgedInputs {
 public:
  // Keeps a reference to `tensors`, whose q, k and v are of Problem::input_dtype().
  JudgedInputs(const Problem& problem, const Tensors& tensors);

  const Tensors& tensors() const { return tensors_; }

  // Row has the codes of one row of Q or K of an e4m3 problem as numbers, and their scale.
  struct Row {
    std::vector<float> codes;
    float scale = 1.0f;
  };
  Row row(Side side, std::int64_t batch, std::int64_t head, std::int64_t row) const;

 private:
  Problem problem_;
  Tensors tensors_;
  std::vector<float> q_, k_, v_;
  std::vector<float> scales_q_, scales_k_;  // of rows, in the order in which they lie in memory
};

}  // namespace attnlab::reference
