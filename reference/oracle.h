// Is the oracle: attention in double from the same rounded inputs, with masks and dropout layout of
// its own. It shares nothing with the kernels but the bare Philox function and the rounding of
// types.
#pragma once

#include <cstdint>

#include "kernels/api/problem.h"
#include "kernels/api/tensors.h"
#include "reference/references.h"

namespace attnlab::reference {

// Takes all rows and all columns if their multiply-adds fit the budget: for each pair of a row and
// a key head_dim times 2 forward, 6 with backward. Else, with backward, columns get one half of it
// and rows the rest (the other half, and what columns leave of theirs).
//
// Rows, at 2 (with backward 4) * seqlen_k * head_dim each: of every slice, the same share of the
// budget for each, but at least 4, whatever they cost. Half of them are drawn from all rows of the
// slice by the seed; the others are the first and the last one and rows on both sides of multiples
// of 64, drawn if not all fit.
//
// Columns: K/V heads drawn from the seed, as many as fit with all keys at borders and as many
// others, the keys chosen like rows. A K/V head costs the softmax and delta of every row that uses
// it, 2 * rows * seqlen_k * head_dim, and 3 * rows * head_dim for each key. One head is there even
// if it does not fit, with a twelfth of its keys (which adds an eighth to the cost): so long
// sequences cost more than the budget, in proportion to seqlen_q * seqlen_k.
//
// (The twin and the bounds triple what make_references really spends.)
Samples choose_samples(const Problem& problem, std::int64_t multiply_adds, std::uint64_t seed);

// Makes oracle and twin of every sample on up to `threads` threads, whose number does not change a
// bit. Reads q, k, v and, unless problem.pass is fwd, dout, and nothing else of `tensors`: lengths
// and patterns come from the problem. The twin's products are in the precision of those of the
// kernels that will be judged. Throws std::invalid_argument for a block pattern that cannot be
// drawn, and for products in TF32 of 16-bit types, which it would not round.
References make_references(const Problem& problem, const Tensors& tensors, const Samples& samples,
                           int threads, Products products = Products::storage);

}  // namespace attnlab::reference
