// Bounds how far lse of e4m3 may be off where one product of a score dwarfs the others.
//
// wgmma aligns the 32 products of codes that it adds, and the sum so far, to the largest of them
// and cuts off, towards zero, what lies below the 13th bit behind its leading one. Each addend may
// lose up to such a unit, and what 31 of them lose need not cancel: the usual bound, (d / 32 + 1)
// 2^-13 of all products' sizes (lse_bound_of_e4m3 in reference/tolerance.h), counts one unit a sum.
// Where a column of both q and k has an outlier single rows of a correct kernel pass it, by up to
// 1.8 times. Measured on an H100 (tests/gpu/e4m3_product_test.cpp): sums agree bit for bit with
// this description, and lse of two rows that passed the bound with sums that are cut like this, to
// 2e-6.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/api/problem.h"
#include "reference/judged_inputs.h"
#include "reference/mask.h"

namespace attnlab::reference {

// CutOff finds for a row what its own products may lose. It looks at every code of every key, so it
// is asked about the few rows that the usual bound refuses.
class CutOff {
 public:
  // Takes an e4m3 problem and its inputs.
  CutOff(const Problem& problem, std::shared_ptr<const JudgedInputs> inputs);

  // Returns log sum_j p_j exp(c_j): p_j are the probabilities of the row's visible keys, whose log
  // of the sum of exponentials is `lse`, and c_j >= 0 is the most that score j may lose. No scores
  // that are off by up to c_j move lse further.
  double of_lse(std::int64_t batch, std::int64_t head, std::int64_t row, double lse) const;

 private:
  Problem problem_;
  std::shared_ptr<const JudgedInputs> inputs_;
  Visibility visibility_;
};

}  // namespace attnlab::reference
