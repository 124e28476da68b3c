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
// Shares of A (largest_product) that any order of summation may lose.
constexpr double kMaxFloor = 0x1p-18;
constexpr double kMeanFloor = 0x1p-20;
// How much one unit of score_bound raises A: what fp32 loses of the scores moves P.
constexpr double kScoreShare = 0x1p-5;
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

// Calls visit(reference, i, row) for every compared row: the i-th of its reference.
template <class Visit>
void for_each_row(const std::vector<ForwardReference>& references, const Visit& visit) {
  for (const ForwardReference& reference : references) {
    for (std::size_t i = 0; i < reference.sample.rows.size(); ++i) {
      visit(reference, static_cast<Eigen::Index>(i), reference.sample.rows[i]);
    }
  }
}

Verdict judge_o(const Problem& problem, const void* o,
                const std::vector<ForwardReference>& references) {
  Errors errors, twin;
  Element worst, not_zero;
  double unit = 0.0, summed = 0.0, squares = 0.0, elements = 0.0;
  std::vector<float> got(static_cast<std::size_t>(problem.head_dim));
  for_each_row(references,
               [&](const ForwardReference& reference, Eigen::Index i, std::int64_t row) {
                 const Sample& sample = reference.sample;
                 read_elements(problem.dtype, o,
                               row_offset(problem, Side::query, sample.batch, sample.head, row),
                               problem.head_dim, got.data());
                 for (Eigen::Index d = 0; d < problem.head_dim; ++d) {
                   const double want = reference.o(i, d);
                   const Element element = {.sample = &sample,
                                            .row = row,
                                            .column = d,
                                            .got = got[static_cast<std::size_t>(d)],
                                            .want = want};
                   if (worst.sample == nullptr || element.error() > worst.error()) worst = element;
                   const bool sees_nothing = reference.lse(i) == -kInfinite;
                   if (sees_nothing && element.got != 0.0 && not_zero.sample == nullptr)
                     not_zero = element;
                   errors.add(element.error());
                   twin.add(std::abs(reference.twin_o(i, d) - want));
                   unit = std::max(unit, rounding_unit(problem.dtype, want));
                   squares += want * want;
                   elements += 1.0;
                 }
                 summed = std::max(summed, reference.largest_product *
                                  (1.0 + kScoreShare * reference.score_bound(i)));
               });

  Verdict verdict = {.tensor = "o", .max_abs = errors.largest};
  verdict.coverage = coverage(problem, references);
  verdict.bound = kMaxFactor * twin.largest + 2.0 * unit + kMaxFloor * summed;
  const double norm = std::sqrt(squares);
  verdict.rel_fro = ratio(std::sqrt(errors.sum_of_squares), norm, 0.0);
  verdict.ratio_to_twin = ratio(errors.largest, std::max(twin.largest, unit), 1.0);
  worst.bound = verdict.bound;

  const double mean_bound = kMeanFactor * twin.sum + kMeanFloor * summed * elements;
  const double fro_bound =
      ratio(kMeanFactor * std::sqrt(twin.sum_of_squares) +
                kMeanFloor * summed * std::sqrt(elements),
            norm, 0.0);
  if (getenv("EXP")) {static double a=0,b=0,c=0; static std::string last; if (last!=problem.id()) {printf("%s: max %.3g mean %.3g fro %.3g\n", last.c_str(),a,b,c);a=b=c=0;last=problem.id();}
   a=std::max(a,errors.largest/verdict.bound);b=std::max(b,errors.sum/mean_bound);c=std::max(c,verdict.rel_fro/fro_bound);} // EXP
  if (!(verdict.coverage > 0.0)) {
    verdict.message = "o: no row was compared; " + problem.id();
  } else if (!(errors.largest <= verdict.bound)) {
    verdict.message = "o: " + describe(worst, problem);
  } else if (not_zero.sample != nullptr) {
    verdict.message = "o of a row that sees nothing: " + describe(not_zero, problem);
  } else if (!(errors.sum <= mean_bound)) {
    verdict.message = "o: mean |error| " + number(errors.sum / elements) + " is above " +
                      number(mean_bound / elements) + "; largest at " + describe(worst, problem);
  } else if (!(verdict.rel_fro <= fro_bound)) {
    verdict.message = "o: relative Frobenius error " + number(verdict.rel_fro) + " is above " +
                      number(fro_bound) + "; largest at " + describe(worst, problem);
  }
  verdict.pass = verdict.message.empty();
  return verdict;
}

Verdict judge_lse(const Problem& problem, const float* lse,
                  const std::vector<ForwardReference>& references) {
  Errors errors;
  Element largest, worst;  // by error, and by error / bound
  double worst_ratio = 0.0, squares = 0.0;
  for_each_row(
      references, [&](const ForwardReference& reference, Eigen::Index i, std::int64_t row) {
        const Sample& sample = reference.sample;
        const double want = reference.lse(i);
        const Element element = {.sample = &sample,
                                 .row = row,
                                 .got = lse[lse_offset(problem, sample.batch, sample.head, row)],
                                 .want = want,
                                 .bound = kLseFloor * (1.0 + reference.score_bound(i))};
        errors.add(element.error());
        if (std::isfinite(want)) squares += want * want;
        if (largest.sample == nullptr || element.error() > largest.error()) largest = element;
        if (worst.sample == nullptr || element.error() / element.bound > worst_ratio) {
          worst = element;
          worst_ratio = element.error() / element.bound;
        }
      });

  Verdict verdict = {.tensor = "lse", .max_abs = errors.largest};
  verdict.rel_fro = ratio(std::sqrt(errors.sum_of_squares), std::sqrt(squares), 0.0);
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
