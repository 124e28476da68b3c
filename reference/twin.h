// The twin: the same attention in the problem's own precision, materialized as eager frameworks do
// it. Its error against the oracle is what a kernel's error is measured by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/slice.h"

namespace attnlab::reference {

// O of at most chunk_rows() rows of a slice, (rows.size(), head_dim), as values of the storage
// type. S = scale * Q K^T, P = softmax(S), dropout(P) and O = P V are computed in fp32, each
// rounded to the storage type. `fates`: (rows.size(), keys).
std::vector<float> twin_forward(const Slice& slice, std::span<const std::int64_t> rows,
                                std::span<const Fate> fates);

}  // namespace attnlab::reference
