// Reads tensors by logical index, whatever their layout and type, so that properties compare them.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/tensors/inputs.h"
#include "kernels/api/problem.h"

namespace attnlab::verify {

// Holds (batch, head, row, column) of what entries have in memory, in fp32, which is exact.
class Values {
 public:
  Values() = default;
  Values(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns)
      : heads_(heads),
        rows_(rows),
        columns_(columns),
        values_(static_cast<std::size_t>(batch * heads * rows * columns)) {}

  float at(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t col) const {
    return values_[index(b, h, row, col)];
  }
  float* row(std::int64_t b, std::int64_t h, std::int64_t r) {
    return values_.data() + index(b, h, r, 0);
  }
  bool empty() const { return values_.empty(); }

 private:
  std::size_t index(std::int64_t b, std::int64_t h, std::int64_t row, std::int64_t col) const {
    return static_cast<std::size_t>(((b * heads_ + h) * rows_ + row) * columns_ + col);
  }
  std::int64_t heads_ = 0, rows_ = 0, columns_ = 0;
  std::vector<float> values_;
};

// These read an output like q, one like k, and an lse.
Values read_like_q(const Problem& problem, const void* data);
Values read_like_k(const Problem& problem, const void* data);
Values read_lse(const Problem& problem, const float* data);

// Reads the inputs as they are now.
Values read_input(const Inputs& inputs, InputTensor tensor);

}  // namespace attnlab::verify
