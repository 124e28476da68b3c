#include "reference/tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/comparison.h"
#include "reference/dropout.h"
#include "reference/identities.h"
#include "reference/mask.h"
#include "reference/nan_scan.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// Any order of summation may lose these shares of A' (see tolerance.h).
constexpr double kMaxFloor = 0x1p-18;
constexpr double kMeanFloor = 0x1p-20;
// The mean and the norm of errors may be this many times the twin's.
constexpr double kMeanFactor = 1.5;
// This many roundings lie between exact scores and the tensor: of P or dS, and of the result to the
// storage type; in TF32 of P or dS, which may go one way in the twin and the other in the kernel.
constexpr double kRoundings = 2.0;
// N squares x^2 of uniform errors x count as this share of N equal ones: their effective number is
// (sum x^2)^2 / sum x^4, and (mean x^2)^2 / mean x^4 is 5 / 9.
constexpr double kShareOfRows = 5.0 / 9.0;
// A subnormal number of f16 is rounded by up to this.
constexpr double kHalfStepF16 = 0x1p-25;
constexpr double kHalfStepE4m3 = 0x1p-18;  // of a P that is shifted by 2^8
// A tensor core keeps a sum of this many products of e4m3 but for this share.
constexpr double kCutOffOfE4m3 = 0x1p-13, kProductsOfE4m3 = 32.0;
// In the largest of many elements an error of delta may be this many times its size.
constexpr double kDeltaFactor = 3.0;
// An lse may be off by this, relative to 1 + score_bound.
constexpr double kLseFloor = 0x1p-19;
// It is w, a TF32 score's worst error relative to score_bound: (1 + e)^2 - 1, e = 2^-11.
constexpr double kWorstScoreError = 0x1p-10 + 0x1p-22;
// An lse's error may be this many times the twin's.
constexpr double kLseFactor = 2.0;

// Returns how many times the twin's the largest error may be.
double max_factor(const std::string& tensor) { return tensor == "o" ? 2.0 : 3.0; }

// Notes how many rows (keys) of a tensor are compared.
void set_coverage(Verdict& verdict, const Problem& problem, Side side, std::size_t compared) {
  verdict.compared = static_cast<std::int64_t>(compared);
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    verdict.rows += side == Side::query ? rows_in_memory(problem, b) * problem.num_heads_q
                                        : keys_in_memory(problem, b) * problem.num_heads_kv;
  }
  verdict.coverage = ratio(static_cast<double>(compared), static_cast<double>(verdict.rows), 1.0);
}

// Returns what one subnormal P may be off by, times what dropout makes of it.
double subnormal_error(const Problem& problem) {
  if (problem.is_e4m3()) return kHalfStepE4m3;
  return problem.dtype == Dtype::f16 ? kHalfStepF16 * dropout_keep_scale(problem) : kUnderflow;
}

// Failure is a bound that failed: which, and the sentence about it. Without a sentence none failed.
struct Failure {
  const char* bound = "";
  std::string text;
};

std::string above(const Held& held) {
  return number(held.figure) + " is above " + number(held.allowed);
}

// Returns the first of the bounds of rows and slopes that does not hold.
Failure sharp_failure(const Problem& problem, const std::string& name, const Comparison& compared,
                      const Held& slope, bool drifts) {
  if (!compared.row.held.holds()) {
    return {"row", name + ": " + place_of(compared.row.place) + ": norm of errors " +
                       above(compared.row.held) + "; " + problem.id()};
  }
  const auto of_slope = [&](const std::string& where, const Held& held) {
    return name + where + (drifts ? ": drift along" : ": |slope - 1| on") + " the reference " +
           above(held) + "; " + problem.id();
  };
  if (!slope.holds()) return {drifts ? "drift" : "slope", of_slope("", slope)};
  if (!compared.slice.held.holds()) {
    return {drifts ? "slice_drift" : "slice_slope",
            of_slope(" of " + place_of(compared.slice.place, false), compared.slice.held)};
  }
  return {};
}

// Returns the mean of errors over all elements that are compared.
double mean_of(const Errors& errors, const Statistics& all) {
  return errors.sum / std::max(1.0, all.elements);
}

// Bounds holds what the largest error, the mean of errors and their norm are held to.
struct Bounds {
  double largest = 0.0, mean = 0.0, norm = 0.0;

  bool hold(const Statistics& all) const {
    return all.kernel.largest <= largest && mean_of(all.kernel, all) <= mean &&
           all.kernel.norm() <= norm;
  }
};

// Returns the bounds of tolerance.h: those of many rows, or of few where these do not hold.
Bounds bounds_of(const Problem& problem, Products products, const Output& output,
                 const Comparison& compared) {
  const Statistics& all = compared.all;
  const double size = all.largest_size;
  const double elements = std::max(1.0, all.elements);
  const double subnormal = subnormal_error(problem);
  const auto roundings_of = [&](double value) {
    return kRoundings * rounding_error(problem.dtype, products, value);
  };
  // Returns the bound of the largest error where so many rows of size differ. The twin's largest P
  // of a row has no rounding error, and that of a maximum that lags behind has.
  const auto largest_of = [&](double rows) {
    if (products == Products::unpromoted) rows = std::min(rows, all.rows_of_largest_size());
    return max_factor(output.name) * all.twin.largest + 2.0 * all.unit + kMaxFloor * size +
           roundings_of(size) / std::max(1.0, rows) + subnormal + kDeltaFactor * all.delta.largest;
  };
  const double of_many = kMeanFloor * size + roundings_of(size) / std::max(1.0, all.rows);
  const double floor = of_many + subnormal;
  Bounds bounds = {
      .largest = largest_of(std::min(all.rows, all.rows_of_size())),
      .mean = (kMeanFactor * all.twin.sum + all.delta.sum) / elements + floor,
      .norm = kMeanFactor * all.twin.norm() + all.delta.norm() + floor * std::sqrt(elements)};
  if (bounds.hold(all)) return bounds;  // else rows are sorted, which is slow

  const double different = compared.different_rows_of_size();
  const double share_of_size = std::min(1.0, all.rows_of_size() / std::max(1.0, all.rows));
  const double squares = std::max(1.0, kShareOfRows * different);  // that count as equal
  const double of_scores = kMaxFloor * size * std::sqrt(share_of_size) / squares;
  const double of_few =
      of_scores + roundings_of(std::sqrt(all.sum_of_squares / elements)) / squares;
  bounds.largest = largest_of(std::min(all.rows, different));
  bounds.mean += std::max(0.0, of_scores - of_many);
  bounds.norm += std::max(0.0, of_few - of_many) * std::sqrt(elements);
  return bounds;
}

}  // namespace

Precision precision_of(const Problem& problem, Products products, Side side) {
  const std::int64_t group = problem.num_heads_q / problem.num_heads_kv;
  const std::int64_t length = side == Side::query ? problem.seqlen_k : group * problem.seqlen_q;
  return {.dtype = problem.dtype, .products = products, .length = static_cast<double>(length)};
}

Verdict judge_comparison(const Problem& problem, Products products, const Output& output,
                         Comparison compared, std::size_t rows) {
  const Precision precision = precision_of(problem, products, output.side);
  const Statistics& all = compared.all;
  const Held slope = hold_slope(all, precision);
  const double norm = std::sqrt(all.sum_of_squares);
  const Bounds bounds = bounds_of(problem, products, output, compared);
  const double mean = mean_of(all.kernel, all);
  const std::string name = output.name;
  Verdict verdict = {.tensor = name, .max_abs = all.kernel.largest};
  verdict.rel_fro = ratio(all.kernel.norm(), norm, 0.0);
  verdict.ratio_to_twin = ratio(all.kernel.largest, std::max(all.twin.largest, all.unit), 1.0);
  verdict.rms_to_twin = ratio(all.kernel.norm(), all.twin.norm(), 1.0);
  verdict.bound = bounds.largest;
  set_coverage(verdict, problem, output.side, rows);
  if (rows > 0) {
    verdict.row_share = compared.row.held.share();
    verdict.slope_share = slope.share();
    verdict.slice_slope_share = compared.slice.held.share();
    verdict.drift = drift_of(precision);
  }
  compared.worst.bound = verdict.bound;
  const auto fail = [&](const char* bound, const std::string& message) {
    verdict.failed_bound = bound;
    verdict.message = message;
  };
  const std::string largest = "; largest at " + describe(compared.worst, problem);
  if (!(verdict.coverage > 0.0)) {
    fail("coverage", name + ": nothing was compared; " + problem.id());
  } else if (!(verdict.max_abs <= verdict.bound)) {
    fail("max", name + ": " + describe(compared.worst, problem));
  } else if (compared.not_zero.exists()) {
    const std::string empty =
        output.side == Side::query ? "row that sees nothing" : "key that nobody sees";
    fail("zero", name + " of a " + empty + ": " + describe(compared.not_zero, problem));
  } else if (!(mean <= bounds.mean)) {
    fail("mean", name + ": mean |error| " + above({mean, bounds.mean}) + largest);
  } else if (!(all.kernel.norm() <= bounds.norm)) {
    fail("norm", name + ": relative Frobenius error " +
                     above({verdict.rel_fro, ratio(bounds.norm, norm, 0.0)}) + largest);
  } else if (const Failure sharp =
                 sharp_failure(problem, name, compared, slope, verdict.drift.has_value());
             !sharp.text.empty()) {
    fail(sharp.bound, sharp.text);
  }
  verdict.pass = verdict.message.empty();
  return verdict;
}

void fail_of_nan(Verdict& verdict, const Problem& problem, const std::string& nan) {
  if (!verdict.pass || nan.empty()) return;
  verdict.failed_bound = "nan";
  verdict.message = nan + "; " + problem.id();
  verdict.pass = false;
}

namespace {

Verdict judge_output(const Problem& problem, const References& references, const Output& output,
                     const std::vector<ComparedRow>& rows) {
  const Precision precision = precision_of(problem, references.products, output.side);
  Verdict verdict = judge_comparison(problem, references.products, output,
                                     compare(problem, precision, output.data, rows), rows.size());
  fail_of_nan(verdict, problem, find_nan(problem, output.name, output.side, output.data));
  return verdict;
}

// Compares o of e4m3 with o of the inputs before they were quantised.
std::optional<double> rmse_unquantised(const Problem& problem, const References& references,
                                       const void* o) {
  if (!problem.is_e4m3()) return std::nullopt;
  double sum = 0.0, elements = 0.0;
  std::vector<float> got(static_cast<std::size_t>(problem.head_dim));
  for (const RowReference& reference : references.rows) {
    const Sample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      read_elements(problem.output_dtype(), o,
                    row_offset(problem, Side::query, sample.batch, sample.head, sample.rows[i]),
                    problem.head_dim, got.data());
      for (Eigen::Index d = 0; d < problem.head_dim; ++d) {
        const double error = static_cast<double>(got[static_cast<std::size_t>(d)]) -
                             reference.unquantised(static_cast<Eigen::Index>(i), d);
        sum += error * error;
        elements += 1.0;
      }
    }
  }
  return std::sqrt(sum / std::max(1.0, elements));
}

// Judges o or dq.
Verdict judge_rows(const Problem& problem, const References& references, const Output& output,
                   Expected RowReference::*tensor) {
  const Precision precision = precision_of(problem, references.products, output.side);
  const auto alike = [&](double score_bound) {
    if (tensor != &RowReference::o) return 0.0;
    return alike_share(precision, score_bound, references.score_step);
  };
  std::vector<ComparedRow> rows;
  for (const RowReference& reference : references.rows) {
    const Sample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      const auto index = static_cast<Eigen::Index>(i);
      rows.push_back({.place = {.batch = sample.batch, .head = sample.head, .row = sample.rows[i]},
                      .expected = &(reference.*tensor),
                      .index = index,
                      .alike = alike(static_cast<double>(reference.score_bound(index))),
                      .must_be_zero = reference.lse(index) == -kInfinite});
    }
  }
  return judge_output(problem, references, output, rows);
}

// Judges dk or dv.
Verdict judge_columns(const Problem& problem, const References& references, const Output& output,
                      Expected ColumnReference::*tensor) {
  std::vector<ComparedRow> rows;
  for (const ColumnReference& reference : references.columns) {
    const ColumnSample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.keys.size(); ++i) {
      rows.push_back({.place = {.side = Side::key,
                                .batch = sample.batch,
                                .head = sample.head_kv,
                                .row = sample.keys[i]},
                      .expected = &(reference.*tensor),
                      .index = static_cast<Eigen::Index>(i),
                      .must_be_zero = !reference.seen[i]});
    }
  }
  return judge_output(problem, references, output, rows);
}

}  // namespace

namespace {

// LseBounds has the bounds of lse, row by row.
class LseBounds {
 public:
  LseBounds(const Problem& problem, const References& references)
      : problem_(problem), references_(references), share_(lse_share(references)) {}

  // Returns what the error of `element` is held to. Of e4m3 a row that the usual bound refuses has
  // one of its own, which takes a look at all of its products: until a row fails by that, too.
  double of(const Element& element, double score_bound) {
    const double plain = lse_bound(score_bound, share_);
    if (!problem_.is_e4m3()) return plain;
    const double usual = lse_bound_of_e4m3(problem_, score_bound);
    const bool is_refused = !(element.error() <= usual);
    if (!is_refused || has_failed_ || !std::isfinite(element.error())) return usual;
    const double own =
        references_.cut_off->of_lse(element.batch, element.head, element.row, element.want) + plain;
    has_failed_ = !(element.error() <= own);
    return std::max(usual, own);
  }

 private:
  const Problem& problem_;
  const References& references_;
  double share_;
  bool has_failed_ = false;
};

}  // namespace

Verdict judge_lse(const Problem& problem, const float* lse, const References& references) {
  Errors errors;
  Element largest, worst;  // by error, and by error / bound
  double worst_ratio = 0.0, sum_of_squares = 0.0;
  std::size_t rows = 0;
  LseBounds bounds(problem, references);
  for (const RowReference& reference : references.rows) {
    const Sample& sample = reference.sample;
    rows += sample.rows.size();
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      const Eigen::Index at = static_cast<Eigen::Index>(i);
      Element element = {.batch = sample.batch,
                         .head = sample.head,
                         .row = sample.rows[i],
                         .got = lse[lse_offset(problem, sample.batch, sample.head, sample.rows[i])],
                         .want = reference.lse(at)};
      element.bound = bounds.of(element, static_cast<double>(reference.score_bound(at)));
      errors.add(element.error());
      if (std::isfinite(element.want)) sum_of_squares += element.want * element.want;
      if (!largest.exists() || element.error() > largest.error()) largest = element;
      if (!worst.exists() || element.error() / element.bound > worst_ratio) {
        worst = element;
        worst_ratio = element.error() / element.bound;
      }
    }
  }

  Verdict verdict = {.tensor = "lse", .max_abs = errors.largest};
  verdict.rel_fro = ratio(errors.norm(), std::sqrt(sum_of_squares), 0.0);
  verdict.ratio_to_twin = worst_ratio;
  verdict.bound = largest.bound;
  set_coverage(verdict, problem, Side::query, rows);
  if (!(verdict.coverage > 0.0)) {
    verdict.failed_bound = "coverage";
    verdict.message = "lse: nothing was compared; " + problem.id();
  } else if (!(worst_ratio <= 1.0)) {
    verdict.failed_bound = "max";
    verdict.message = "lse: " + describe(worst, problem);
  }
  verdict.pass = verdict.message.empty();
  fail_of_nan(verdict, problem, find_nan_in_lse(problem, lse));
  return verdict;
}

double lse_share(const References& references) {
  if (references.products != Products::tf32) return 0.0;
  double largest = 0.0, rows = 0.0;
  for (const RowReference& reference : references.rows) {
    for (Eigen::Index i = 0; i < reference.lse.size(); ++i) {
      const auto size = static_cast<double>(reference.score_bound(i));
      if (!(size > 0.0)) continue;  // sees nothing, or scores that are 0 exactly
      const double error = std::abs(static_cast<double>(reference.lse_twin(i)) - reference.lse(i));
      largest = std::max(largest, error / size);
      rows += 1.0;
    }
  }
  const double of_the_twin = kLseFactor * largest + kWorstScoreError / std::max(1.0, rows);
  return std::min(kWorstScoreError, of_the_twin);
}

double lse_bound_of_e4m3(const Problem& problem, double score_bound) {
  const double sums = static_cast<double>(problem.head_dim) / kProductsOfE4m3 + 1.0;
  return sums * kCutOffOfE4m3 * (1.0 + score_bound);
}

double lse_bound(double score_bound, double share) {
  return kLseFloor * (1.0 + score_bound) + share * score_bound;
}

std::vector<Verdict> judge(const Problem& problem, const Tensors& tensors,
                           const References& references) {
  std::vector<Verdict> verdicts;
  if (problem.pass != Pass::bwd) {
    verdicts.push_back(
        judge_rows(problem, references, {.name = "o", .data = tensors.o}, &RowReference::o));
    verdicts.back().rmse_unquantised = rmse_unquantised(problem, references, tensors.o);
    if (tensors.lse != nullptr) verdicts.push_back(judge_lse(problem, tensors.lse, references));
  }
  if (problem.pass == Pass::fwd) return verdicts;
  verdicts.push_back(
      judge_rows(problem, references, {.name = "dq", .data = tensors.dq}, &RowReference::dq));
  verdicts.push_back(judge_columns(problem, references,
                                   {.name = "dk", .data = tensors.dk, .side = Side::key},
                                   &ColumnReference::dk));
  verdicts.push_back(judge_columns(problem, references,
                                   {.name = "dv", .data = tensors.dv, .side = Side::key},
                                   &ColumnReference::dv));
  check_identities(problem, tensors, references, verdicts);
  return verdicts;
}

}  // namespace attnlab::reference
