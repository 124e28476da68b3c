// Implements measure_peaks() of kernels/api/peaks.h on a GPU.
#pragma once

#include "kernels/api/peaks.h"

namespace attnlab::cuda {

std::vector<Ceiling> measure_peaks(const Device& device,
                                   const std::function<void(CeilingId)>& begins);

// These sizes follow from the device. Rows of the square matrices of a product are 8192, halved
// until three of them fit an eighth of the memory.
std::uint64_t product_rows(const Device& device, std::uint64_t element_bytes);
// Returns what is read or copied in all: 128 times the L2, so that what it keeps from the launch
// before is less than 1 %; at most a quarter of the memory. It is a multiple of the grid's step.
std::uint64_t streamed_chunks(const Device& device, std::uint64_t blocks);
// Returns a quarter of the L2: on chips with two halves of L2 each keeps a copy of the other's.
std::uint64_t cached_chunks(const Device& device);

}  // namespace attnlab::cuda
