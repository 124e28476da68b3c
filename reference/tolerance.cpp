#include "reference/tolerance.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// How much larger than the twin's an error of O may be: its maximum, and its mean and norm.
constexpr double kMaxFactor = 2.0;
constexpr double kMeanFactor = 1.5;
// Shares of A' (see tolerance.h) that any order of summation may lose.
constexpr double kMaxFloor = 0x1p-18;
constexpr double kMeanFloor = 0x1p-20;
// How much one unit of score_bound adds to A'.
constexpr double kScoreShare = 0x1p-5;
// Roundings to the storage type between exact scores and O: that of P and that of O.
constexpr double kRoundings = 2.0;
// Of an lse, relative to 1 + score_bound.
constexpr double kLseFloor = 0x1p-19;

// One compared element and where it is; column -1: lse has none.
struct Element {
  const Sample* sample = nullptr;
  std::int64_t row = 0;
  std::int64_t column = -1;
  double got = 0.0;
  double want = 0.0;
  double bound = 0.0;

  // Infinite if either side is not finite and they differ, or is NaN.
  double error() const {
    if (got == want) return 0.0;
    const double difference = std::abs(got - want);
    return std::isfinite(difference) ? difference : kInfinite;
  }
};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string describe(const Element& element, const Problem& problem) {
  if (element.sample == nullptr) return problem.id();
  std::string text = "batch " + std::to_string(element.sample->batch) + " head " +
                     std::to_string(element.sample->head) + " row " + std::to_string(element.row);
  if (element.column >= 0) text += " column " + std::to_string(element.column);
  return text + ": got " + number(element.got) + ", want " + number(element.want) + ", bound " +
         number(element.bound) + "; " + problem.id();
}

// Errors of many elements of one tensor against the oracle.
struct Errors {
  double largest = 0.0;
  double sum = 0.0;
  double sum_of_squares = 0.0;

  void add(double error) {
    largest = std::max(largest, error);
    sum += error;
    sum_of_squares += error * error;
  }
  double norm() const { return std::sqrt(sum_of_squares); }
};

// 0 / 0 is `at_zero`; anything else over 0 is infinite.
double ratio(double numerator, double denominator, double at_zero) {
  if (denominator != 0.0) return numerator / denominator;
  return numerator == 0.0 ? at_zero : kInfinite;
}

// What the storage type loses around a value: |((r + 0.3) - 0.3) - r|, each step rounded.
double rounding_unit(Dtype dtype, double value) {
  const float r = round_to_storage(dtype, static_cast<float>(value));
  const float offset = round_to_storage(dtype, 0.3f);
  const float there = round_to_storage(dtype, r + offset);
  const float back = round_to_storage(dtype, there - offset);
  return std::abs(static_cast<double>(back) - static_cast<double>(r));
}

// Largest relative error of one rounding to nearest.
double unit_roundoff(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 0x1p-24;
    case Dtype::f16: return 0x1p-11;
    case Dtype::bf16: return 0x1p-8;
  }
  return 0.0;
}

double coverage(const Problem& problem, const std::vector<ForwardReference>& references) {
  double compared = 0.0;
  for (const ForwardReference& reference : references) {
    compared += static_cast<double>(reference.sample.rows.size());
  }
  double rows = 0.0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    rows += static_cast<double>(rows_in_memory(problem, b) * problem.num_heads_q);
  }
  return ratio(compared, rows, 1.0);
}

// All that the rule asks about O.
struct Comparison {
  Errors kernel, twin;
  Element worst;                 // of the largest error
  Element not_zero;              // one that is not 0 in a row that sees nothing, if any
  double unit = 0.0;             // u
  double largest_product = 0.0;  // A'
  double sum_of_squares = 0.0;   // of ref
  double rows = 0.0;
};

void compare_row(const Problem& problem, const ForwardReference& reference, Eigen::Index i,
                 const std::vector<float>& got, Comparison& all) {
  const bool sees_nothing = reference.lse(i) == -kInfinite;
  for (Eigen::Index d = 0; d < problem.head_dim; ++d) {
    const double want = reference.o(i, d);
    const Element element = {.sample = &reference.sample,
                             .row = reference.sample.rows[static_cast<std::size_t>(i)],
                             .column = d,
                             .got = got[static_cast<std::size_t>(d)],
                             .want = want};
    if (all.worst.sample == nullptr || element.error() > all.worst.error()) all.worst = element;
    if (sees_nothing && element.got != 0.0) all.not_zero = element;
    all.kernel.add(element.error());
    all.twin.add(std::abs(reference.twin_o(i, d) - want));
    all.unit = std::max(all.unit, rounding_unit(problem.dtype, want));
    all.sum_of_squares += want * want;
  }
  const double score_factor = 1.0 + kScoreShare * reference.score_bound(i);
  all.largest_product = std::max(all.largest_product, reference.largest_product * score_factor);
  all.rows += 1.0;
}

Verdict judge_o(const Problem& problem, const void* o,
                const std::vector<ForwardReference>& references) {
  Comparison all;
  std::vector<float> got(static_cast<std::size_t>(problem.head_dim));
  for (const ForwardReference& reference : references) {
    const Sample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      const std::int64_t offset =
          row_offset(problem, Side::query, sample.batch, sample.head, sample.rows[i]);
      read_elements(problem.dtype, o, offset, problem.head_dim, got.data());
      compare_row(problem, reference, static_cast<Eigen::Index>(i), got, all);
    }
  }

  const double elements = all.rows * static_cast<double>(problem.head_dim);
  const double norm = std::sqrt(all.sum_of_squares);
  const double few_rows =
      ratio(kRoundings * unit_roundoff(problem.dtype) * all.largest_product, all.rows, 0.0);
  const double floor = kMeanFloor * all.largest_product + few_rows;
  const double mean = ratio(all.kernel.sum, elements, 0.0);
  const double mean_bound = ratio(kMeanFactor * all.twin.sum, elements, 0.0) + floor;
  const double fro_bound =
      ratio(kMeanFactor * all.twin.norm() + floor * std::sqrt(elements), norm, 0.0);

  Verdict verdict = {.tensor = "o", .max_abs = all.kernel.largest};
  verdict.rel_fro = ratio(all.kernel.norm(), norm, 0.0);
  verdict.ratio_to_twin = ratio(all.kernel.largest, std::max(all.twin.largest, all.unit), 1.0);
  verdict.bound =
      kMaxFactor * all.twin.largest + 2.0 * all.unit + kMaxFloor * all.largest_product + few_rows;
  verdict.coverage = coverage(problem, references);
  all.worst.bound = verdict.bound;
  if (!(verdict.coverage > 0.0)) {
    verdict.message = "o: no row was compared; " + problem.id();
  } else if (!(verdict.max_abs <= verdict.bound)) {
    verdict.message = "o: " + describe(all.worst, problem);
  } else if (all.not_zero.sample != nullptr) {
    verdict.message = "o of a row that sees nothing: " + describe(all.not_zero, problem);
  } else if (!(mean <= mean_bound)) {
    verdict.message = "o: mean |error| " + number(mean) + " is above " + number(mean_bound) +
                      "; largest at " + describe(all.worst, problem);
  } else if (!(verdict.rel_fro <= fro_bound)) {
    verdict.message = "o: relative Frobenius error " + number(verdict.rel_fro) + " is above " +
                      number(fro_bound) + "; largest at " + describe(all.worst, problem);
  }
  verdict.pass = verdict.message.empty();
  return verdict;
}

Verdict judge_lse(const Problem& problem, const float* lse,
                  const std::vector<ForwardReference>& references) {
  Errors errors;
  Element largest, worst;  // by error, and by error / bound
  double worst_ratio = 0.0, sum_of_squares = 0.0;
  for (const ForwardReference& reference : references) {
    const Sample& sample = reference.sample;
    for (std::size_t i = 0; i < sample.rows.size(); ++i) {
      const Eigen::Index at = static_cast<Eigen::Index>(i);
      const Element element = {
          .sample = &sample,
          .row = sample.rows[i],
          .got = lse[lse_offset(problem, sample.batch, sample.head, sample.rows[i])],
          .want = reference.lse(at),
          .bound = kLseFloor * (1.0 + reference.score_bound(at))};
      errors.add(element.error());
      if (std::isfinite(element.want)) sum_of_squares += element.want * element.want;
      if (largest.sample == nullptr || element.error() > largest.error()) largest = element;
      if (worst.sample == nullptr || element.error() / element.bound > worst_ratio) {
        worst = element;
        worst_ratio = element.error() / element.bound;
      }
    }
  }

  Verdict verdict = {.tensor = "lse", .max_abs = errors.largest};
  verdict.rel_fro = ratio(errors.norm(), std::sqrt(sum_of_squares), 0.0);
  verdict.ratio_to_twin = worst_ratio;
  verdict.bound = largest.bound;
  verdict.coverage = coverage(problem, references);
  if (!(verdict.coverage > 0.0)) {
    verdict.message = "lse: no row was compared; " + problem.id();
  } else if (!(worst_ratio <= 1.0)) {
    verdict.message = "lse: " + describe(worst, problem);
  }
  verdict.pass = verdict.message.empty();
  return verdict;
}

}  // namespace

std::vector<Verdict> judge_forward(const Problem& problem, const Tensors& tensors,
                                   const std::vector<ForwardReference>& references) {
  return {judge_o(problem, tensors.o, references), judge_lse(problem, tensors.lse, references)};
}

}  // namespace attnlab::reference
