// The bounds of rows and of slopes: pure functions from statistics to what was found and what is
// allowed. They are sharp where the bounds of reference/tolerance.h, which go by the largest
// element and by norms over everything, let a bias or a wrong row through.
//
//   row    ||x - r|| <= 4 ||t - r|| + 2e ||r|| + 2^-18 A' sqrt(d) + 3 ||D|| + 3e A'
//          + 2^-64 (f16: 2^-14)
//          of each row, all terms of its own: its d elements, its A'; 2e ||r|| with the e of
//          storage.
//   slope  |sum (x - r) r| / sum r^2, which is |slope - 1| of x on r, of a tensor and of each
//   slice:
//          <= (2 |sum (t - r) r| + |sum (r' - r) r| + sqrt((4 R(t - r))^2 + C^2) + 3 R(D)
//              + 2^-19 R(A') + 2e R(A') / (rows sqrt(d)) + 2e R(r) / rows + R(2^-64; f16: 2^-14)
//              + (2^-20 + b) sum r^2) / sum r^2
//          with R(y) the root of the sum over rows of (||y|| ||r||)^2, and as rows those that
//          round by themselves: no more than an element sums products, for rows that share one key
//          round alike, and than (sum r^2)^2 / sum over rows of ||r||^4, how many are of size.
//
// An error of one row may lie along r as a whole (one weight of the softmax that is rounded), so
// within a row it is bounded by norms; rows round independently, so they add up as roots of squares
// do, and the bound falls as 1 / sqrt(rows) where a bias does not. 2e A' is for the twin's luck: of
// few elements its errors may be 0 exactly. D is what is left of delta where O cancels: then A' may
// be 0 beside it. R(2^-64; f16: 2^-14) is what each row may be off by whatever its size: D is
// formed of squares, which underflow in fp32, and in f16 dropout may keep only subnormal P of a
// row. r' is r rounded to the storage type, what a kernel gives that is exact inside: rows that see
// one key have O = Z V, and where Z is a little above 5/4 all products that are nearly ties of bf16
// go the same way.
//
// C, of o: a kernel rounds exp(s - m), m the running maximum, and the twin rounds P, so they do not
// round the same numbers. Where scores take few values, rows round the same few, and their errors
// add up as they are: C = 4 sum over rows of ||t - r|| ||r|| / sqrt(n), n how many different
// roundings of its P a row has, and no more than e sum r^2, as if each were the largest there is.
// With s its score_bound: where all scores are multiples of g >= e, which the trailing zeros of q
// and k tell, there are n = s / g values. Else exp(s - m) passes through N = s / 2e steps of the
// type; errors of whole steps cancel, and what is left at the ends is 1 / N of an error, as n = N^2
// that differ would leave of their mean, 1 / sqrt(n).
// Inputs N(0, 1) have n = 10^5 and more; integers had n = 10, and slopes off by e / 5.
//
// Of 0 the reference leaves what doubles round: with one key dS is 0, dQ and dK are 1e-17 of A',
// and in rows that share the key this goes the same way as the rounding of their O, so it does not
// add up as independent errors do. Where rows are below 2^-40 A' sqrt(d), R(r) <= 2^-40 R(A'),
// nothing is asked: 2^-19 R(A') alone allows a slope of 2^21 / sqrt(rows).
//
// What fp32 cannot hold, 2^-100 an element, is left out above. 2^-20 sum r^2 is for what fp32
// scales a tensor by. Nothing here goes by the order in which a kernel adds, but one thing does:
// tensor cores cut off what they add to a sum, always toward 0. b = 2^-23 length / 8 allows one
// unit in the last place of fp32 for each 8 products of a sum of `length`, in 16-bit types and
// TF32; in f32, where sums round to nearest, b = 0. In e4m3 b = 1.5e-3 sqrt(max(1, length / 4096))
// where sums are promoted, and else drift_of(): the bound is then called drift, not slope.
#pragma once

#include <cmath>
#include <optional>

#include "reference/statistics.h"
#include "reference/storage.h"

namespace attnlab::reference {

// Precision says what tensors and products are rounded to, and the largest number of products that
// an element sums: keys of o and dq, query rows of all heads that share the key of dk and dv.
struct Precision {
  Dtype dtype = Dtype::f32;
  Products products = Products::storage;
  double length = 0.0;
};

// An element may lose this where P or O lie below fp32's normal numbers, of inputs below 2^26.
inline constexpr double kUnderflow = 0x1p-100;

// Returns how much of a row's rounding errors other rows may share, of O, whose P are rounded
// before they are normalized: by the row's score_bound and the step of which scores are multiples.
double alike_share(const Precision& precision, double score_bound, double score_step);

// Returns the drift, a bound of its own in the place of b: of O of e4m3 whose sums stay in the
// tensor core, which keeps 13 bits of each, 1.5e-3 + 2^-14 length / 32. Promoted sums, and those of
// other types, have none.
std::optional<double> drift_of(const Precision& precision);

// Held is a figure and what it is held to.
struct Held {
  double figure = 0.0;
  double allowed = 0.0;

  // Returns false if either is NaN, and if `allowed` overflowed to infinity, which bounds nothing.
  bool holds() const { return figure <= allowed && std::isfinite(allowed); }
  // Returns the used share of what is allowed: 0 of nothing, infinite where nothing is allowed.
  double share() const;
};

// Holds one row, ended. A sum of nothing, whose A' is 0, has no bound of its own: 0 of 0.
Held hold_row(const Statistics& row, const Precision& precision);
// Holds a slice or a tensor. Where r is 0 everywhere, or its rounding, there is no slope: 0 of 0.
Held hold_slope(const Statistics& rows, const Precision& precision);

}  // namespace attnlab::reference
