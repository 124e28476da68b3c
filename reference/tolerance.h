// The tolerance rule (results/README.md states it in words): a kernel may be as wrong as a
// materialized computation in its own precision (the twin), times a small constant, and no more.
// NaN and infinity never pass; the rows of o and dq that see nothing and the keys of dk and dv that
// nobody sees must be exactly 0.
//
//   o, dq, dk, dv
//        max |x - ref|  <= c max |twin - ref| + 2u + 2^-18 A' + F_max + 3 max D
//        mean |x - ref| <= 1.5 mean |twin - ref| + 2^-20 A' + F + mean D
//        ||x - ref||    <= 1.5 ||twin - ref|| + 2^-20 A' sqrt(n) + F_norm + ||D||
//   lse  |x - ref|      <= 2^-19 (1 + score_bound) of its row; -inf exactly where ref has it
//
// These bounds go by a tensor's largest element and by norms over everything. reference/bounds.h
// adds those of each row and of slopes, which see single rows and biases.
//
// c = 2 for o, 3 for gradients; u = max |((r + 0.3) - 0.3) - r| in the storage type, r = ref
// rounded to it: a rounding step near 0.3, as FlashAttention's own tests take it; means and norms
// (Frobenius) are over the n elements of rows whose products of absolute values are not all 0. The
// terms that do not depend on the twin answer for its luck:
//
// A' is the largest element of the products of absolute values, each row of P times its f (below):
//   o sum_j P Z |V|;   dq scale sum_j W |K|;   dk scale sum_i W |Q|;   dv sum_i P Z |dO|,
// with W = P (Z sum_d |dO||V| + sum_d |dO||O|) and Z dropout's factor. With one key the twin's
// error is exactly 0, and in long sums the order decides: without a floor on the norm a correct
// fp32 kernel failed at 4096 keys in 29 of 30 trials of o, its error up to 16 times the twin's. The
// factor is there because fp32 loses of large scores what moves P: with queries 30 times N(0, 1),
// head_dim 256 and 2 or 3 keys a correct kernel failed in 2 of 20 trials of o without it.
//
// f = max(1 + score_bound / 32, S / 32), S = sqrt(head_dim (s^2 + |s| n + n^2) / 3), with s the
// row's largest score and n the largest norm, over visible keys, of what a score sums:
// softmax_scale (sum_d (q_d k_jd)^2)^1/2. Each of the head_dim additions of a score rounds what is
// summed so far, by 0.42 u of it (root of the mean square, u = 2^-24). That begins with one
// product, n at most, and ends with s; where it grows evenly between them its squares add up to S^2
// (of products in any order to head_dim (s^2 / 3 + n^2 / 6), which is less). So a score is off by
// 0.42 u S and the difference of two, which P goes by, by 0.6 u S; S / 32 of 2^-18 is 2 u S. For
// N(0, 1) 1 + score_bound / 32 is the larger, or nearly. S is for one large product, as of an
// outlier channel: once it is in the sum, all others are rounded to the sum's step. Kernels that
// sum q_d k_d round the same numbers to the same step as the twin, so they have its errors; one
// that multiplies q or k with softmax_scale first has others. With a product of 60, head_dim 216, 3
// keys and one row 27 of 400 verdicts on o of such a kernel failed without S, with it none of
// 20000.
//
// F = 2 e A' / rows, e the storage type's unit roundoff (e A' is at least half a subnormal number),
// rows the same as for means: P or dS and the result are rounded to the storage type once each, and
// in few rows the twin's errors may cancel. The largest error is one of large rows, where the twin
// may be lucky however many small ones there are: F_max has the smaller of rows and
// N = (sum ref^2)^2 / sum over rows of ||ref||^4, how many are of size. With a dropout of 0.986 and
// outliers in V the largest element of 51 rows was off by a quarter of e in the twin and by 3 / 4
// in correct kernels. Of e4m3 that is not promoted it is no more than N_8 = sum A'_r^8 / A'^8 over
// rows r, how many are of nearly the largest size: there a row's maximum may lag behind by 2^0.8
// (kSlackOfP), so that its largest P, 2^8 in the twin and exact, is rounded by up to e. Where one
// key has nearly all of a row no other P averages that out, and of outliers in V a few rows are far
// larger than all others: of 144 forwards at head_dim 256, 512 to 8192 keys, 4 were up to 1.29
// times the bound without N_8. In f16 also 2^-25 Z: half a step of a subnormal P, whose error in a
// kernel, which scales P by its row's maximum, is another than in the twin; in other types 2^-100,
// for P and O below the normal numbers of fp32.
//
// F_norm = F sqrt(n). How far errors average out depends on how many rows of size differ: R is N
// with rows of the same ||ref||^2 taken for one row of their summed squares: they are equal, or of
// numbers that round alike. Errors x are uniform, so that 5 / 9 R of their squares count,
// (mean x^2)^2 / mean x^4. A tensor that these bounds refuse is judged once more (counting sorts
// all rows): with R for N in F_max, and in the bound of the norm with
//
//   (2 e ||ref|| + 2^-18 A' sqrt(n min(1, N / rows))) / max(1, 5 / 9 R)
//
// in the place of (2 e A' / rows + 2^-20 A') sqrt(n), if that is more; in that of the mean with the
// second part of it over sqrt(n). In one row 2 e ||ref|| is the norm of two roundings; and scores
// or lse that are off shift all of its P alike, so that all of it may lose what its largest element
// may. Where many rows differ it is less than what it replaces, or next to nothing. The mean
// goes by the roundings of all rows: with V = 1 all rows are equal, and if many elements are off by
// a step no other bound sees it. With integers, 8 keys, head_dim 2 and a dropout of 0.9 the norm of
// a correct kernel was 2.4 times the twin's: of 81 rows, 49 of size, R was 3.4. In f32, with an
// outlier channel, one row and head_dim 2, the norm of dq of correct kernels was 1.06 times the
// bound without 2^-18.
//
// D, dq and dk: delta = rowsum(dO * O) is formed from the stored O, whose elements are off by up to
// e |O| (subnormal ones, and what subnormal P give in f16, by half a step), and from P that were
// rounded before they were summed, each by up to e P, which meets dP. All of it is independent, so
// delta is off by about E = e sqrt(||dO * O||^2 + sum_j (P Z dP)^2). That shifts all of a row's dS
// by P times as much, so D = scale E |sum_j P K| in dq and, over independent rows, scale
// sqrt(sum_i (P E Q)^2) in dk. The twin sums P * dP instead and has no error of O; with one key and
// dropout its dS is exactly 0. Its P are normalized before they are rounded and a kernel's are not:
// where O cancels, its P may be numbers of the type and its sum exactly 0. In f32 all of it is
// small beside A', but where O cancels and the keys that dP meets have K = 0.
//
// Measured with the tiled kernel of the tests, forward and backward, N(0, 1) with queries times 0,
// 1, 8, 30, dropout 0, 0.2, 0.5, head_dim 1 to 64, from one row and one key to 130 x 97 and 5 x
// 700, causal or not: of 201600 verdicts 3 failed, all of bf16 with at most 5 rows, up to 5 % above
// the bound of the norm. In 40320 of them 0 failed by this rule, 100 without D, 163 without F and
// 1324 without A'. The largest error / bound of gradients was 0.41 in f32, 0.67 in 16-bit types; at
// 5 x 4096, 4096 x 5 and 1000 x 300 none of 3240 failed and all were below 0.4.
//
// Products in TF32 (f32 tensors whose products round their factors to 10 explicit bits of mantissa)
// are judged by a twin that does the same: References::products. e of F and D is then 2^-11, for P
// and dS are rounded before their products, in the twin up or down as luck has it; and dP is formed
// of rounded dO, delta of dO itself. Sums are in fp32 as ever, so A' keeps its shares and u its
// type.
//
// A product of two rounded factors is off by at most w = (1 + e)^2 - 1 of itself, so a score by at
// most w score_bound, and lse moves no further than the score that moves most. With head_dim 1 or
// an outlier channel a score is one product, whose two roundings may both be as large as they can
// be; else they cancel, and lse is off by a fiftieth of that. So the bound of lse gets, times its
// row's score_bound: min(w, 2 max |twin - ref| / score_bound + w / rows), the max over the rows
// that see something. A kernel that rounds q and k as they are has the twin's errors; one that
// multiplies q with softmax_scale first rounds other numbers.
//
// Measured likewise, with queries times 1, 8, 16 and with an outlier channel, from one row and one
// key to 130 x 300, head_dim 1 to 128: of 60000 verdicts on a kernel with products in TF32 6
// failed, five of dk or dv with at most 3 rows and one of o with 3 keys, up to twice the bound.
// Without D 21 of 1200 of dq and dk failed, with F of the storage type's e 247 of 40000 of all. Of
// a kernel that multiplies q with softmax_scale first 93 of 30000 failed, 79 of them where queries
// were times 8 or 16. Of kernels that round their factors to bf16 o and lse failed in 3 of 4 of
// these problems, which are short; of kernels that truncate factors to TF32 o in one of 4.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reference/comparison.h"
#include "reference/oracle.h"
#include "reference/verdict.h"

namespace attnlab::reference {

// Judges the outputs of problem.pass in `tensors`, as the kernel left them, against the references:
// o and lse of fwd; dq, dk and dv of bwd; all five, in this order, of fwdbwd. There is no verdict
// on an lse that is null, of a kernel that writes none. NaN is looked for in all of each output,
// also where nothing is compared.
std::vector<Verdict> judge(const Problem& problem, const Tensors& tensors,
                           const References& references);

// Output is one output tensor, as the kernel left it.
struct Output {
  const char* name;  // o, dq, dk or dv
  const void* data;
  Side side = Side::query;
};

// Returns what an element of an output sums, and in which precision.
Precision precision_of(const Problem& problem, Products products, Side side);

// Applies the rule of o, dq, dk and dv to what was compared: so many rows (dk, dv: keys). NaN
// elsewhere are for fail_of_nan().
Verdict judge_comparison(const Problem& problem, Products products, const Output& output,
                         Comparison compared, std::size_t rows);
// Fails a verdict that passes so far; `nan` is what find_nan() says of all of the output.
void fail_of_nan(Verdict& verdict, const Problem& problem, const std::string& nan);
// Applies the rule of lse: every row of the references is compared.
Verdict judge_lse(const Problem& problem, const float* lse, const References& references);

// Returns what |error| of an lse is held to, by the score_bound of its row and the share of it that
// the rounding of scores may cost: 0 unless products are in TF32.
double lse_share(const References& references);
double lse_bound(double score_bound, double share);
// Bounds lse of e4m3, whose tensor cores keep 13 bits of a sum of 32 products: (d / 32 + 1) 2^-13
// (1 + score_bound). A row beyond it is held to what its own products may lose
// (reference/cut_off.h), if that is more.
double lse_bound_of_e4m3(const Problem& problem, double score_bound);

}  // namespace attnlab::reference
