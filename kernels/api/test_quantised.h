// Shares what tests of the quantisation compare with: all that quantise() makes of a problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/api/quantise.h"

namespace attnlab {

// QuantisedOnCpu has codes and scales of every tensor, made on so many threads.
struct QuantisedOnCpu {
  QuantisedOnCpu(const Problem& problem, const std::vector<float>& q, const std::vector<float>& k,
                 const std::vector<float>& v, int threads) {
    constexpr std::uint8_t kNotWritten = 0xFF;
    const auto size = [](std::int64_t elements) { return static_cast<std::size_t>(elements); };
    codes_q.assign(q.size(), kNotWritten);
    codes_k.assign(k.size(), kNotWritten);
    codes_v.assign(v.size(), kNotWritten);
    transposed.assign(size(elements_v_transposed(problem)), kNotWritten);
    scale_q.resize(size(elements_scale_q(problem)));
    scale_k.resize(size(elements_scale_k(problem)));
    scale_v.resize(size(elements_scale_v(problem)));
    quantise(problem, q.data(), k.data(), v.data(), threads,
             {.q = codes_q.data(),
              .k = codes_k.data(),
              .v = codes_v.data(),
              .v_transposed = transposed.data(),
              .scale_q = scale_q.data(),
              .scale_k = scale_k.data(),
              .scale_v = scale_v.data()});
  }

  std::vector<std::uint8_t> codes_q, codes_k, codes_v, transposed;
  std::vector<float> scale_q, scale_k, scale_v;
};

}  // namespace attnlab
