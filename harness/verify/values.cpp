#include "harness/verify/values.h"

#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::verify {

namespace {

Values read(const Problem& problem, Dtype dtype, reference::Side side, const void* data) {
  const bool like_q = side == reference::Side::query;
  const std::int64_t heads = like_q ? problem.num_heads_q : problem.num_heads_kv;
  Values values(problem.batch, heads, like_q ? problem.seqlen_q : problem.seqlen_k,
                problem.head_dim);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const std::int64_t rows =
        like_q ? reference::rows_in_memory(problem, b) : reference::keys_in_memory(problem, b);
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t row = 0; row < rows; ++row) {
        reference::read_elements(dtype, data, reference::row_offset(problem, side, b, h, row),
                                 problem.head_dim, values.row(b, h, row));
      }
    }
  }
  return values;
}

}  // namespace

Values read_like_q(const Problem& problem, const void* data) {
  return read(problem, problem.output_dtype(), reference::Side::query, data);
}

Values read_like_k(const Problem& problem, const void* data) {
  return read(problem, problem.output_dtype(), reference::Side::key, data);
}

Values read_lse(const Problem& problem, const float* data) {
  Values values(problem.batch, problem.num_heads_q, problem.seqlen_q, 1);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
      for (std::int64_t row = 0; row < reference::rows_in_memory(problem, b); ++row) {
        *values.row(b, h, row) = data[reference::lse_offset(problem, b, h, row)];
      }
    }
  }
  return values;
}

Values read_input(const Inputs& inputs, InputTensor tensor) {
  const Tensors& tensors = inputs.host();
  const auto read_it = [&](reference::Side side, const void* data) {
    return read(inputs.problem(), inputs.problem().input_dtype(), side, data);
  };
  switch (tensor) {
    case InputTensor::q: return read_it(reference::Side::query, tensors.q);
    case InputTensor::k: return read_it(reference::Side::key, tensors.k);
    case InputTensor::v: return read_it(reference::Side::key, tensors.v);
    case InputTensor::dout: break;
  }
  return tensors.dout == nullptr ? Values() : read_it(reference::Side::query, tensors.dout);
}

}  // namespace attnlab::verify
