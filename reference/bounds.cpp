#include "reference/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnlab::reference {
namespace {

// A row's error may be this many times the twin's.
constexpr double kRowFactor = 4.0;
// An error of delta may be this many times its expected size.
constexpr double kDeltaFactor = 3.0;
// Any order of summation may lose these shares of A': in one row, and along r.
constexpr double kRowFloor = 0x1p-18;
constexpr double kSlopeFloor = 0x1p-19;
// A lucky twin may lack this many roundings to the storage type: of P or dS, and of the result.
constexpr double kRoundings = 2.0;
// In one row it may lack these: its scores may be rounded to the storage type, too.
constexpr double kRoundingsOfRow = 3.0;
// A row may be off by this much whatever its size, where inputs are of the size of 1. D is a root
// of sums of squares, which underflow in fp32; in f16 P and dS may be subnormal.
constexpr double kRowRest = 0x1p-64;
constexpr double kRowRestF16 = 0x1p-14;
// Below this share of A' a reference is what its own rounding left of 0, which has no slope.
constexpr double kNoise = 0x1p-40;
// fp32 itself may have this slope.
constexpr double kScaleFloor = 0x1p-20;
// O of e4m3, promoted, may have this slope up to 4096 keys.
constexpr double kLean = 1.5e-3;
// Not promoted, each sum of 32 products may also cut off this share.
constexpr double kCutOffOf32 = 0x1p-14;
// A tensor core may cut off this share of a sum for each 8 products.
constexpr double kCutOff = 0x1p-23;
constexpr double kProductsOfOneStep = 8.0;

// Returns what a row may be off by whatever its size.
double row_rest(Dtype dtype) { return dtype == Dtype::f16 ? kRowRestF16 : kRowRest; }

double cut_off(const Precision& precision) {
  if (const std::optional<double> drift = drift_of(precision)) return *drift;
  if (precision.dtype == Dtype::e4m3) {  // promoted every tile: 3e-3 at 16384 keys
    return kLean * std::sqrt(std::max(1.0, precision.length / 4096.0));
  }
  const bool rounds = precision.dtype == Dtype::f32 && precision.products == Products::storage;
  return rounds ? 0.0 : kCutOff * precision.length / kProductsOfOneStep;
}

}  // namespace

double Held::share() const {
  if (figure == 0.0) return 0.0;
  return allowed == 0.0 ? std::numeric_limits<double>::infinity() : figure / allowed;
}

std::optional<double> drift_of(const Precision& precision) {
  if (precision.products != Products::unpromoted) return std::nullopt;
  return kLean + kCutOffOf32 * precision.length / 32.0;
}

double alike_share(const Precision& precision, double score_bound, double score_step) {
  if (!(score_bound > 0.0)) return 0.0;  // all P are 1
  const double e = unit_roundoff(precision.dtype, precision.products);
  if (score_step >= e) return std::sqrt(std::min(1.0, score_step / score_bound));
  return std::min(1.0, 2.0 * e / score_bound);
}

Held hold_row(const Statistics& row, const Precision& precision) {
  if (!(row.largest_size > 0.0)) return {};
  const double root = std::sqrt(std::max(1.0, row.elements));
  const double value = std::sqrt(row.sum_of_squares) / root;
  const double of_elements =
      kRoundings * rounding_error(precision.dtype, value) + kRowFloor * row.largest_size;
  const double luck =
      kRoundingsOfRow * rounding_error(precision.dtype, precision.products, row.largest_size);
  return {.figure = row.kernel.norm(),
          .allowed = kRowFactor * row.twin.norm() + of_elements * root +
                     kDeltaFactor * row.delta.norm() + luck + row_rest(precision.dtype)};
}

Held hold_slope(const Statistics& rows, const Precision& precision) {
  if (!(rows.sum_of_squares > 0.0)) {
    return {.figure = std::abs(rows.kernel_along), .allowed = kUnderflow};
  }
  if (rows.value_rows < kNoise * kNoise * rows.size_rows) {
    return {.figure = 0.0 * rows.kernel_along};  // NaN and infinity do not hold
  }
  const double row_elements = std::max(1.0, rows.elements / std::max(1.0, rows.rows));
  const double count = std::max(1.0, std::min({rows.rows, precision.length, rows.rows_of_size()}));
  const double e = rounding_error(precision.dtype, precision.products, rows.largest_size) /
                   std::max(rows.largest_size, std::numeric_limits<double>::min());
  const double sizes = std::sqrt(rows.size_rows);
  const double luck = kRoundings * e * sizes / (count * std::sqrt(row_elements));
  const double alike = std::min(kRowFactor * rows.twin_alike, e * rows.sum_of_squares);
  const double allowed = 2.0 * std::abs(rows.twin_along) + std::abs(rows.rounded_along) +
                         std::hypot(kRowFactor * std::sqrt(rows.twin_rows), alike) +
                         kDeltaFactor * std::sqrt(rows.delta_rows) + kSlopeFloor * sizes + luck +
                         kRoundings * e * std::sqrt(rows.value_rows) / count +
                         row_rest(precision.dtype) * std::sqrt(rows.sum_of_squares) +
                         kUnderflow * std::sqrt(rows.elements * rows.sum_of_squares) +
                         (kScaleFloor + cut_off(precision)) * rows.sum_of_squares;
  return {.figure = std::abs(rows.kernel_along) / rows.sum_of_squares,
          .allowed = allowed / rows.sum_of_squares};
}

}  // namespace attnlab::reference
