// Checks what holds between the tensors of a backward whatever P and dS are. Where the oracle
// compares keys of some K/V heads only, since references of a key cost all scores of its head, this
// looks at all others, for the price of their inputs:
//
//   K^T dK = sum dQ^T Q    from dQ = scale dS K and dK = scale dS^T Q
//   V^T dV = sum O^T dO    from O = P V and dV = P^T dO, P with dropout in it
//
// of (head_dim, head_dim), summed over the query heads that share the K/V head. dQ and O are those
// of the kernel, which the oracle compares in rows of every slice. Where rows of a tensor are wrong
// by a share rho of their norms, each for itself, the two sides differ by
//
//   rho (sum over rows of (||k|| ||dk||)^2 + sum over rows of (||q|| ||dq||)^2)^1/2,
//
// and 8 times that is allowed, with the larger rho of both sides that was found where something was
// compared, and 2e for the rounding that may be missing there (at least 2^-13). Of dK also 4e times
// what delta may be, (sum over rows of (||q|| ||dO|| ||o||)^2)^1/2 scale max ||k||: where dP and
// delta cancel, as with one key, nothing but their rounding is left. Also 8 times what P, dS and
// elements of both sides lose that are too small for their type, s each: in f16 half a step of
// subnormal numbers, 2^-25, in other types 2^-100, for fp32 has no P below 2^-126. Of dV that is
// s (Z ||v|| ||dO|| + sqrt(d) (||v|| + ||dO||)) with norms of the head, and of dK likewise with
// scale, k and q: where dropout kept but small P, its errors are another share than elsewhere. So a
// head that was not written, or half of it, is seen, and a small bias is not. Where all heads would
// take more than a second they are drawn.
#pragma once

#include <vector>

#include "kernels/api/tensors.h"
#include "reference/references.h"
#include "reference/verdict.h"

namespace attnlab::reference {

// Fails verdicts on dk and dv that pass and whose identity does not hold in a K/V head of which
// `references` have no keys. The problem must have a backward; without an O nothing is asked.
void check_identities(const Problem& problem, const Tensors& tensors, const References& references,
                      std::vector<Verdict>& verdicts);

}  // namespace attnlab::reference
