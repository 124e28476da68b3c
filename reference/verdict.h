// Verdict judges one output tensor. It is plain data, so that records can carry it without Eigen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace attnlab::reference {

struct Verdict {
  std::string tensor;          // "o", "lse", "dq", "dk", "dv"
  double max_abs = 0.0;        // largest |x - ref|
  double rel_fro = 0.0;        // ||x - ref||_F / ||ref||_F
  double ratio_to_twin = 0.0;  // max_abs / the twin's max_abs, or / u (see tolerance.h) where the
                               // twin's is smaller; lse: the largest |error| / bound
  // It is the root mean square of x - ref over the twin's; lse has none, but a rule of its own.
  std::optional<double> rms_to_twin;
  // It is, for o of e4m3, the root mean square of x - exact, exact being unquantised attention. It
  // is no part of a bound: it says what e4m3 costs, not how right the kernel is.
  std::optional<double> rmse_unquantised;
  double bound = 0.0;         // what max_abs is held to (lse: of the row that has max_abs)
  std::int64_t compared = 0;  // rows (dk, dv: keys) of all slices
  std::int64_t rows = 0;      // that the tensor has
  double coverage = 0.0;      // the ratio of both; 1 where there are no rows
  bool whole_heads = false;   // where coverage < 1: heads were drawn, and all rows of them compared
  // They say how much is used, at most, of the bounds of rows and of slopes (see bounds.h), of the
  // tensor and of its slices; above 1 one fails. lse has none.
  std::optional<double> row_share, slope_share, slice_slope_share;
  // It is, for o of e4m3 that is not promoted, how far it may drift along the reference
  // (drift_of()); records then say drift where they else say slope.
  std::optional<double> drift;
  bool pass = false;
  // A failure names its bound: "coverage", "max", "zero", "mean", "norm", "row", "slope",
  // "slice_slope" (or "drift", "slice_drift"), "nan" or "identity".
  std::string failed_bound;
  std::string message;  // of a failure: where, what was found, what is allowed
};

}  // namespace attnlab::reference
