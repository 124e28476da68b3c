// The tolerance rule (results/README.md states it in words): a kernel may be as wrong as a
// materialized computation in its own precision (the twin), times a small constant, and no more.
// NaN and infinity never pass, and a row that sees nothing must be exactly 0.
//
//   O    max |x - ref|        <= 2 max |twin - ref| + 2u + 2^-18 A' + F
//        mean |x - ref|       <= 1.5 mean |twin - ref| + 2^-20 A' + F
//        ||x - ref|| / ||ref|| <= 1.5 ||twin - ref|| / ||ref|| + (2^-20 A' + F) sqrt(n) / ||ref||
//   lse  |x - ref|            <= 2^-19 (1 + score_bound) of its row; -inf exactly where ref has it
//
// u = max |((r + 0.3) - 0.3) - r| in the storage type, r = ref rounded to it; n elements; norms are
// Frobenius norms. The terms that do not depend on the twin answer for the luck of the twin:
//
// A' = max over rows of A (1 + score_bound / 32), A = largest_product. A: with one key the twin's
// error is exactly 0, and in long sums the order decides: without a floor on the norm a correct
// fp32 kernel failed at 4096 keys in 29 of 30 trials, its error up to 16 times the twin's.
// score_bound: what fp32 loses of large scores moves P; with queries 30 times N(0, 1), head_dim 256
// and 2 or 3 keys a correct kernel failed in 2 of 20 trials with A alone, and stays below 0.3 of
// the bound now.
//
// F = 2 e A' / rows, e the storage type's unit roundoff: P and O are rounded to the storage type
// once each, and in few rows the twin's errors may cancel. Without it one row of one 16-bit element
// failed a correct kernel in 1 of 10 trials.
#pragma once

#include <vector>

#include "reference/oracle.h"
#include "reference/verdict.h"

namespace attnlab::reference {

// Judges `tensors.o` and `tensors.lse` (as the kernel left them) against the references.
std::vector<Verdict> judge_forward(const Problem& problem, const Tensors& tensors,
                                   const std::vector<ForwardReference>& references);

}  // namespace attnlab::reference
