#include "kernels/api/quantise.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/shared/quantise.h"

namespace attnlab {
namespace {

std::int64_t blocks_of(std::int64_t seqlen) { return ceil_div(seqlen, kScaleRows); }

// Tensor is one of q, k and v.
struct Tensor {
  const float* values;
  std::uint8_t* codes;
  float* scales;
  ScaleOf scale_of;
  std::int64_t heads;
  std::int64_t seqlen;
  Strides strides;
  bool rotates;
  bool is_query;
};

// Head has the rows of one head of an entry.
struct Head {
  std::int64_t b, h;
  std::int64_t offset;   // of row 0
  std::int64_t rows;     // in memory
  std::int64_t present;  // of these, those that the entry has
};

class Quantiser {
 public:
  Quantiser(const Problem& problem, int threads)
      : problem_(problem), shape_(make_shape(problem)), threads_(threads) {}

  void run(const Tensor& tensor) const {
    std::vector<Head> heads = heads_of(tensor);
    float amax = 0.0f;
    if (tensor.scale_of == ScaleOf::tensor) {
      std::vector<float> amaxes(heads.size());
      each(heads, [&](std::size_t i) { amaxes[i] = amax_of(tensor, heads[i], 0, heads[i].rows); });
      for (float value : amaxes) amax = update_amax(amax, value);
    }
    each(heads, [&](std::size_t i) {
      if (tensor.scale_of == ScaleOf::channel) {
        quantise_columns(tensor, heads[i]);
      } else {
        quantise_blocks(tensor, heads[i], amax);
      }
    });
  }

 private:
  std::vector<Head> heads_of(const Tensor& tensor) const {
    const bool packed = problem_.lengths.kind == LengthsKind::packed;
    std::vector<Head> heads;
    std::int64_t first_row = 0;
    for (std::int64_t b = 0; b < problem_.batch; ++b) {
      const std::int64_t present = tensor.is_query ? problem_.queries(b) : problem_.keys(b);
      const std::int64_t rows = packed ? present : tensor.seqlen;
      for (std::int64_t h = 0; h < tensor.heads; ++h) {
        heads.push_back({b, h, tensor.strides.offset(b, h, first_row), rows, present});
      }
      if (packed) first_row += rows;
    }
    return heads;
  }

  void each(const std::vector<Head>& heads, const std::function<void(std::size_t)>& work) const {
    std::vector<std::jthread> workers;
    const auto share = [&](std::size_t first) {
      for (std::size_t i = first; i < heads.size(); i += static_cast<std::size_t>(threads_)) {
        work(i);
      }
    };
    for (int i = 1; i < threads_; ++i) workers.emplace_back(share, static_cast<std::size_t>(i));
    share(0);
  }

  // Reads a row as it is quantised: rotated, and zeros where the entry has none.
  void read(const Tensor& tensor, const Head& head, std::int64_t row, float* out) const {
    if (row >= head.present) {
      std::fill_n(out, problem_.head_dim, 0.0f);
      return;
    }
    std::copy_n(tensor.values + head.offset + row * tensor.strides.row, problem_.head_dim, out);
    if (!tensor.rotates) return;
    const std::int64_t head_kv = tensor.is_query ? shape_.kv_head(head.h) : head.h;
    rotate_row(out, problem_.head_dim, philox_key(problem_.seed), head_kv);
  }

  float amax_of(const Tensor& tensor, const Head& head, std::int64_t begin,
                std::int64_t end) const {
    std::vector<float> row(static_cast<std::size_t>(problem_.head_dim));
    float amax = 0.0f;
    for (std::int64_t r = begin; r < std::min(end, head.rows); ++r) {
      read(tensor, head, r, row.data());
      for (float value : row) amax = update_amax(amax, value);
    }
    return amax;
  }

  void quantise_blocks(const Tensor& tensor, const Head& head, float amax) const {
    const std::int64_t blocks = blocks_of(tensor.seqlen);
    float* const scales = tensor.scales + (head.b * tensor.heads + head.h) * blocks;
    if (tensor.scale_of == ScaleOf::head) amax = amax_of(tensor, head, 0, head.rows);
    std::vector<float> row(static_cast<std::size_t>(problem_.head_dim));
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t begin = block * kScaleRows, end = begin + kScaleRows;
      if (tensor.scale_of == ScaleOf::block) amax = amax_of(tensor, head, begin, end);
      scales[block] = begin < head.present ? e4m3_scale(amax) : 1.0f;
      const float multiplier = e4m3_multiplier(scales[block]);
      for (std::int64_t r = begin; r < std::min(end, head.rows); ++r) {
        read(tensor, head, r, row.data());
        std::uint8_t* const codes = tensor.codes + head.offset + r * tensor.strides.row;
        for (std::size_t c = 0; c < row.size(); ++c)
          codes[c] = attnlab::quantise(row[c], multiplier);
      }
    }
  }

  void quantise_columns(const Tensor& tensor, const Head& head) const {
    const auto width = static_cast<std::size_t>(problem_.head_dim);
    std::vector<float> row(width), amax(width, 0.0f), multipliers(width);
    for (std::int64_t r = 0; r < head.rows; ++r) {
      read(tensor, head, r, row.data());
      for (std::size_t c = 0; c < width; ++c) amax[c] = update_amax(amax[c], row[c]);
    }
    float* const scales = tensor.scales + (head.b * tensor.heads + head.h) * problem_.head_dim;
    for (std::size_t c = 0; c < width; ++c) {
      scales[c] = e4m3_scale(amax[c]);
      multipliers[c] = e4m3_multiplier(scales[c]);
    }
    for (std::int64_t r = 0; r < head.rows; ++r) {
      read(tensor, head, r, row.data());
      std::uint8_t* const codes = tensor.codes + head.offset + r * tensor.strides.row;
      for (std::size_t c = 0; c < width; ++c) codes[c] = attnlab::quantise(row[c], multipliers[c]);
    }
  }

  const Problem& problem_;
  const Shape shape_;
  const int threads_;
};

// Makes V^T of the codes of V, with zeros where there is no key.
void transpose(const Problem& problem, const std::uint8_t* v, std::uint8_t* to) {
  const Shape shape = make_shape(problem);
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  std::fill_n(to, elements_v_transposed(problem), std::uint8_t{0});
  std::int64_t first_key = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t keys = problem.keys(b);
    for (std::int64_t h = 0; h < problem.num_heads_kv; ++h) {
      for (std::int64_t column = 0; column < problem.head_dim; ++column) {
        std::uint8_t* const row = to + v_transposed_offset(problem, b, h, column);
        const std::uint8_t* const codes = v + shape.k.offset(b, h, first_key) + column;
        for (std::int64_t key = 0; key < keys; ++key) {
          row[key / 16 * 16 + slot_of_key(key % 16)] = codes[key * shape.k.row];
        }
      }
    }
    if (packed) first_key += keys;
  }
}

std::int64_t transposed_keys(const Problem& problem) {
  if (problem.lengths.kind != LengthsKind::packed) return round_up(problem.seqlen_k, kScaleRows);
  std::int64_t keys = 0;
  for (std::int64_t length : problem.lengths.keys) keys += length;
  return first_transposed_key(keys, problem.batch);
}

}  // namespace

std::int64_t elements_v_transposed(const Problem& problem) {
  const bool packed = problem.lengths.kind == LengthsKind::packed;
  return (packed ? 1 : problem.batch) * problem.num_heads_kv * problem.head_dim *
         transposed_keys(problem);
}

std::int64_t elements_scale_q(const Problem& problem) {
  return problem.batch * problem.num_heads_q * blocks_of(problem.seqlen_q);
}

std::int64_t elements_scale_k(const Problem& problem) {
  return problem.batch * problem.num_heads_kv * blocks_of(problem.seqlen_k);
}

std::int64_t elements_scale_v(const Problem& problem) {
  if (problem.quantisation.v != ScaleOf::channel) return elements_scale_k(problem);
  return problem.batch * problem.num_heads_kv * problem.head_dim;
}

std::int64_t v_transposed_offset(const Problem& problem, std::int64_t b, std::int64_t head_kv,
                                 std::int64_t column) {
  const std::int64_t keys = transposed_keys(problem);
  const std::int64_t row = head_kv * problem.head_dim + column;
  if (problem.lengths.kind != LengthsKind::packed) {
    return (b * problem.num_heads_kv * problem.head_dim + row) * keys;
  }
  std::int64_t first_key = 0;
  for (std::int64_t i = 0; i < b; ++i) first_key += problem.keys(i);
  return row * keys + first_transposed_key(first_key, b);
}

void quantise(const Problem& problem, const float* q, const float* k, const float* v, int threads,
              const E4m3Outputs& to) {
  const Shape shape = make_shape(problem);
  const Quantisation& how = problem.quantisation;
  const Quantiser quantiser(problem, threads);
  const std::int64_t heads_kv = problem.num_heads_kv;
  quantiser.run({q, to.q, to.scale_q, how.qk, problem.num_heads_q, problem.seqlen_q, shape.q,
                 how.rotate, true});
  quantiser.run(
      {k, to.k, to.scale_k, how.qk, heads_kv, problem.seqlen_k, shape.k, how.rotate, false});
  quantiser.run({v, to.v, to.scale_v, how.v, heads_kv, problem.seqlen_k, shape.k, false, false});
  transpose(problem, to.v, to.v_transposed);
}

}  // namespace attnlab
