// Gives the tests of this folder a problem with memory of its own.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"
#include "kernels/shared/convert.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Operands says what the test kernels make of the factors of their products.
enum class Operands { as_they_are, tf32, tf32_truncated, bf16 };

inline float as_operand(Operands operands, float value) {
  switch (operands) {
    case Operands::as_they_are: break;
    case Operands::tf32: return round_to_tf32(value);
    case Operands::tf32_truncated: return bit_cast<float>(bit_cast<u32>(value) & ~0x1FFFu);
    case Operands::bf16: return round_to_storage(Dtype::bf16, value);
  }
  return value;
}

// Cuts off so many of the low bits of an fp32 mantissa, toward 0.
inline float without_low_bits(float value, int bits) {
  return bit_cast<float>(bit_cast<u32>(value) >> bits << bits);
}

// TestTensor is a tensor in its storage type, by (batch, head, row, column), whatever the layout.
class TestTensor {
 public:
  TestTensor(Dtype dtype, std::int64_t elements, const Strides& strides,
             std::vector<std::int64_t> lengths)
      : dtype_(dtype),
        strides_(strides),
        lengths_(std::move(lengths)),
        bytes_(static_cast<std::size_t>(elements * size_bytes(dtype))) {}

  float get(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) const {
    const std::byte* place = bytes_.data() + offset_bytes(b, h, r, d);
    if (dtype_ == Dtype::f32) return read<float>(place);
    const auto bits = read<std::uint16_t>(place);
    return dtype_ == Dtype::f16 ? f32_from_f16(bits) : f32_from_bf16(bits);
  }

  void set(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d, float value) {
    std::byte* place = bytes_.data() + offset_bytes(b, h, r, d);
    if (dtype_ == Dtype::f32) {
      std::memcpy(place, &value, sizeof value);
    } else {
      const std::uint16_t bits = dtype_ == Dtype::f16 ? f16_from_f32(value) : bf16_from_f32(value);
      std::memcpy(place, &bits, sizeof bits);
    }
  }

  std::byte* data() { return bytes_.data(); }

 private:
  template <class T>
  static T read(const std::byte* place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    return value;
  }

  std::size_t offset_bytes(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) const {
    std::int64_t row = r;  // of a packed tensor: rows of the entries before come first
    for (std::size_t i = 0; i < lengths_.size() && i < static_cast<std::size_t>(b); ++i) {
      row += lengths_[i];
    }
    return static_cast<std::size_t>((strides_.offset(b, h, row) + d) * size_bytes(dtype_));
  }

  Dtype dtype_;
  Strides strides_;
  std::vector<std::int64_t> lengths_;  // of packed entries
  std::vector<std::byte> bytes_;
};

// TestProblem has all tensors of a problem. Outputs start as NaN, dO as zero.
struct TestProblem {
  using Value =
      std::function<float(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d)>;

  explicit TestProblem(const Problem& p)
      : problem(p),
        q(p.dtype, p.elements_q(), make_shape(p).q, p.lengths.queries),
        k(p.dtype, p.elements_k(), make_shape(p).k, packed_keys(p)),
        v(k),
        o(q),
        dout(q),
        dq(q),
        dk(k),
        dv(k),
        lse(static_cast<std::size_t>(p.elements_lse()), std::numeric_limits<float>::quiet_NaN()) {
    const Value nan = [](auto...) { return std::numeric_limits<float>::quiet_NaN(); };
    for (TestTensor* tensor : {&o, &dq}) fill(*tensor, p.num_heads_q, true, nan);
    for (TestTensor* tensor : {&dk, &dv}) fill(*tensor, p.num_heads_kv, false, nan);
  }

  // Draws N(0, 1) in q, k, v and dO, in an order that does not depend on the layout.
  void fill_normal(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    const Value draw = [&](auto...) { return normal(random); };
    fill_q(draw);
    fill_k(draw);
    fill_v(draw);
    fill_dout(draw);
  }

  void fill_q(const Value& value) { fill(q, problem.num_heads_q, true, value); }
  void fill_k(const Value& value) { fill(k, problem.num_heads_kv, false, value); }
  void fill_v(const Value& value) { fill(v, problem.num_heads_kv, false, value); }

  void fill_dout(const Value& value) { fill(dout, problem.num_heads_q, true, value); }

  Tensors tensors() {
    return {.q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .o = o.data(),
            .lse = lse.data(),
            .dout = dout.data(),
            .dq = dq.data(),
            .dk = dk.data(),
            .dv = dv.data()};
  }

  float& lse_at(std::int64_t b, std::int64_t h, std::int64_t r) {
    return lse[static_cast<std::size_t>((b * problem.num_heads_q + h) * problem.seqlen_q + r)];
  }

  // Returns the keys that entry b has in memory.
  std::int64_t rows_of_k(std::int64_t b) const {
    return problem.layout == Layout::packed ? problem.keys(b) : problem.seqlen_k;
  }

  // Returns q as a factor of scores: before or after it is multiplied with softmax_scale.
  float factor_q(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t d) const {
    const float scale = scales_q ? static_cast<float>(problem.scale()) : 1.0f;
    return factor(scale * q.get(b, h, r, d));
  }
  // Returns what scores are multiplied with to be in units of log2.
  float scale_log2() const {
    return static_cast<float>((scales_q ? 1.0 : problem.scale()) * std::numbers::log2e);
  }
  // Returns a factor of a product, as the test kernels multiply it.
  float factor(float value) const { return as_operand(operands, value); }
  // Returns a sum of o, dq, dk or dv as the test kernels keep it from one tile to the next.
  float kept(float sum) const { return without_low_bits(sum, cut_bits); }
  float factor(const TestTensor& tensor, std::int64_t b, std::int64_t h, std::int64_t r,
               std::int64_t d) const {
    return factor(tensor.get(b, h, r, d));
  }

  Problem problem;
  Operands operands = Operands::as_they_are;
  bool scales_q = false;
  int cut_bits = 0;  // of the 23 of a sum in fp32, that are lost at each tile's end
  TestTensor q, k, v, o, dout, dq, dk, dv;
  std::vector<float> lse;

 private:
  static std::vector<std::int64_t> packed_keys(const Problem& p) {
    return p.layout == Layout::packed ? p.lengths.keys : std::vector<std::int64_t>{};
  }

  void fill(TestTensor& tensor, std::int64_t heads, bool queries, const Value& value) {
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t r = 0; r < (queries ? problem.queries(b) : rows_of_k(b)); ++r) {
          for (std::int64_t d = 0; d < problem.head_dim; ++d) {
            tensor.set(b, h, r, d, value(b, h, r, d));
          }
        }
      }
    }
  }
};

}  // namespace attnlab::reference
