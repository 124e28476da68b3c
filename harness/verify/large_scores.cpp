// Checks scores so large that fp32 has few numbers near them; the answers are known anyway. The
// tolerance rule allows what a materialized computation loses, which of such scores is everything;
// here q and k are powers of two times small integers, so every score is exact in fp32, and only
// how far a key stays behind the first one counts:
//   score(row, key) = softmax_scale q k = large + weight(row, class of the key) unit
// with a large part of 2^size or -1.125 times it.
// The large part is that of all keys or, so that whole tiles of it come before ordinary ones, of
// the first keys alone. Or else scores are sums that fp32 rounds, by another amount in another
// order, and one key leads by far more than that: who computes a score twice must find it twice.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "harness/verify/relation.h"

namespace attnlab::verify {

namespace {

constexpr int kClasses = 7;

// Returns a key's class: four keys have their own, a pair and a group of three share one each,
// whose scores are the same; all others are the last class.
int class_of(std::int64_t key) {
  switch (key) {
    case 3: return 0;
    case 20: return 1;
    case 37: return 2;
    case 50: return 3;
    case 8:
    case 41: return 4;
    case 0:
    case 17:
    case 52: return 5;
    default: return 6;
  }
}

// Returns a weight: in each row one class leads, in the last two others are a unit or two behind.
float weight(std::int64_t row, int of_class) {
  constexpr float kWeights[8][kClasses] = {{3, -5, -5, -5, -5, -5, -5}, {-5, 3, -5, -5, -5, -5, -5},
                                           {-5, -5, 3, -5, -5, -5, -5}, {-5, -5, -5, 3, -5, -5, -5},
                                           {-5, -5, -5, -5, 3, -5, -5}, {-5, -5, -5, -5, -5, 3, -5},
                                           {3, 2, -5, -5, -5, -5, -5},  {1, -5, 2, -5, 3, -5, -5}};
  return kWeights[row % 8][of_class];
}

enum class Large { all_keys, first_keys, rounded_sums };
constexpr std::int64_t kFirstKeys = 64;  // as many as a small tile has at the most

// Holds exponents of powers of two.
struct Sizes {
  Large large = Large::all_keys;
  int score = 0;     // of softmax_scale q k
  int unit = 0;      // of differences
  int factor = 0;    // of column 0 of q and k
  int scale = 0;     // of softmax_scale
  int q = 0, k = 0;  // of the columns whose products are the differences
  int dout = 0;      // so that gradients stay in the range of f16
};

// A score takes `bits` bits, less those of a weight.
Sizes make_sizes(Dtype dtype, int score, int bits, Large large) {
  Sizes sizes = {.large = large, .score = score, .unit = std::max(score - bits, -1)};
  sizes.factor = std::min((score + 3) / 2, dtype == Dtype::f16 ? 15 : 64);
  sizes.scale = score - 2 * sizes.factor;
  const int product = sizes.unit - sizes.scale;
  sizes.q = product / 2;
  sizes.k = product - sizes.q;
  sizes.dout = -std::clamp(sizes.scale + sizes.factor, 0, 13);
  return sizes;
}

float power(int exponent) { return std::ldexp(1.0f, exponent); }

// Returns the sign of a head's scores. Negative ones have a rounded product with log2(e) below the
// exact one, so that a P without care exceeds 1.
float sign(std::int64_t head) { return head % 2 == 0 ? 1.0f : -1.125f; }

bool is_large(const Sizes& sizes, std::int64_t key) {
  return sizes.large == Large::all_keys || key < kFirstKeys;
}

// Makes four patterns of signs over the columns: products of a pattern with itself add up, with
// another they mostly cancel. Their sizes reach over twelve binades, whose sums fp32 rounds.
float patterned(std::int64_t pattern, std::int64_t row, std::int64_t col, int factor) {
  constexpr std::int64_t kBinades = 12;
  const auto bits = static_cast<std::uint64_t>((col / kBinades) & (pattern + 1));
  const float digits = 1.0f + static_cast<float>((row * 37 + col * 11) % 64) / 64.0f;
  return (std::popcount(bits) % 2 == 0 ? digits : -digits) *
         power(factor - static_cast<int>(col % kBinades));
}

// Each of four keys leads in every fourth row; the others have a pattern that no row has.
void fill_rounded_sums(Inputs& inputs, const Sizes& sizes) {
  inputs.fill(InputTensor::q, [&](auto, auto head, auto row, auto col) {
    return patterned(row % 4, row + head, col, sizes.factor);
  });
  inputs.fill(InputTensor::k, [&](auto, auto, auto key, auto col) {
    return patterned(std::min(class_of(key), 4), key, col, sizes.factor);
  });
}

// The first column has what all scores of a row share; each class has a column with its weight.
void fill_exact_scores(Inputs& inputs, const Sizes& sizes) {
  inputs.fill(InputTensor::q, [&](auto, auto head, auto row, auto col) {
    if (col == 0) return sign(head) * power(sizes.factor);
    return col > kClasses ? 0.0f : weight(row, static_cast<int>(col) - 1) * power(sizes.q);
  });
  inputs.fill(InputTensor::k, [&](auto, auto, auto key, auto col) {
    if (col == 0) return is_large(sizes, key) ? power(sizes.factor) : 0.0f;
    return col == class_of(key) + 1 ? power(sizes.k) : 0.0f;
  });
}

void fill_scores(Inputs& inputs, const Sizes& sizes) {
  if (sizes.large == Large::rounded_sums) {
    fill_rounded_sums(inputs, sizes);
  } else {
    fill_exact_scores(inputs, sizes);
  }
  const Values dout = read_input(inputs, InputTensor::dout);
  if (dout.empty()) return;
  inputs.fill(InputTensor::dout, [&](auto b, auto head, auto row, auto col) {
    return dout.at(b, head, row, col) * power(sizes.dout);
  });
}

// Holds for each (batch, head, row, column) of an output its value, and the sum of the sizes of its
// terms, of which roundings take their share.
class Exact {
 public:
  Exact(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t columns)
      : heads_(heads),
        rows_(rows),
        columns_(columns),
        elements_(static_cast<std::size_t>(batch * heads * rows * columns)) {}

  void add(const Place& p, double value, double size) {
    Element& element = elements_[index(p)];
    element.value += value;
    element.size += size;
  }
  double value(const Place& p) const { return elements_[index(p)].value; }
  double size(const Place& p) const { return elements_[index(p)].size; }

 private:
  struct Element {
    double value = 0.0, size = 0.0;
  };
  std::size_t index(const Place& p) const {
    return static_cast<std::size_t>(((p.b * heads_ + p.h) * rows_ + p.row) * columns_ + p.col);
  }
  std::int64_t heads_, rows_, columns_;
  std::vector<Element> elements_;
};

// Holds all outputs, computed from differences of scores alone.
struct Answer {
  explicit Answer(const Problem& p)
      : o(p.batch, p.num_heads_q, p.seqlen_q, p.head_dim),
        lse(p.batch, p.num_heads_q, p.seqlen_q, 1),
        dq(p.batch, p.num_heads_q, p.seqlen_q, p.head_dim),
        dk(p.batch, p.num_heads_kv, p.seqlen_k, p.head_dim),
        dv(p.batch, p.num_heads_kv, p.seqlen_k, p.head_dim) {}

  const Exact& of(Output output) const {
    switch (output) {
      case Output::o: return o;
      case Output::lse: return lse;
      case Output::dq: return dq;
      case Output::dk: return dk;
      case Output::dv: break;
    }
    return dv;
  }

  Exact o, lse, dq, dk, dv;
};

// Returns the share that roundings take on the way to an output, each to the storage type: of P,
// dP, delta's O, dS and itself; in fp32 a few more.
double share_of_roundings(Output output, Dtype dtype) {
  if (output == Output::lse || dtype == Dtype::f32)
    return output == Output::lse ? 0x1p-21 : 0x1p-18;
  return 6.0 * (dtype == Dtype::f16 ? 0x1p-11 : 0x1p-8);
}

// Returns the size whose share P and dS may be off by where they vanish beside a P of 1, or are too
// small for f16.
double vanishing(Dtype dtype) {
  return (dtype == Dtype::f16 ? 0x1p-24 : 0x1p-32) / share_of_roundings(Output::o, dtype);
}

// Computes P of one row, and adds what it gives to the outputs.
class Row {
 public:
  Row(const Problem& problem, const Values& q, const Values& k, const Place& place)
      : problem_(problem), place_(place) {
    const bool causal = problem.mask.right() >= 0;
    const std::int64_t keys = problem.keys(place.b);
    const std::int64_t last = causal ? place.row + keys - problem.queries(place.b) : keys - 1;
    p_.assign(static_cast<std::size_t>(last + 1), 0.0);
    for (std::size_t j = 0; j < p_.size(); ++j) p_[j] = score(q, k, j);
    largest_ = *std::max_element(p_.begin(), p_.end());
    for (double& p : p_) {
      p = std::exp(p - largest_);
      sum_ += p;
    }
    for (double& p : p_) p /= sum_;
  }

  void add_forward(const Values& v, Answer& answer) const {
    answer.lse.add(place_, largest_ + std::log(sum_), std::abs(largest_) + 1.0);
    for (std::size_t j = 0; j < p_.size(); ++j) {
      for (std::int64_t x = 0; x < problem_.head_dim; ++x) {
        const double value = element(v, key(j), x);
        answer.o.add(at(x), p_[j] * value, (p_[j] + vanishing(problem_.dtype)) * std::abs(value));
      }
    }
  }

  void add_backward(const Values& q, const Values& k, const Values& v, const Values& dout,
                    Answer& answer) const {
    double delta = 0.0, delta_size = 0.0;
    for (std::int64_t x = 0; x < problem_.head_dim; ++x) {
      const double product = element(dout, place_, x) * answer.o.value(at(x));
      delta += product;
      delta_size += std::abs(product);
    }
    for (std::size_t j = 0; j < p_.size(); ++j) {
      double dp = 0.0, dp_size = 0.0;
      for (std::int64_t x = 0; x < problem_.head_dim; ++x) {
        const double product = element(dout, place_, x) * element(v, key(j), x);
        dp += product;
        dp_size += std::abs(product);
      }
      const double ds = problem_.scale() * p_[j] * (dp - delta);
      const double size =
          problem_.scale() * (p_[j] * (dp_size + delta_size) + vanishing(problem_.dtype));
      for (std::int64_t x = 0; x < problem_.head_dim; ++x) {
        const double of_q = element(q, place_, x), of_k = element(k, key(j), x);
        const double of_dout = element(dout, place_, x);
        Place column = key(j);
        column.col = x;
        answer.dq.add(at(x), ds * of_k, size * std::abs(of_k));
        answer.dk.add(column, ds * of_q, size * std::abs(of_q));
        answer.dv.add(column, p_[j] * of_dout,
                      (p_[j] + vanishing(problem_.dtype)) * std::abs(of_dout));
      }
    }
  }

 private:
  // Computes in double, where the powers of two and their differences are exact.
  double score(const Values& q, const Values& k, std::size_t j) const {
    double sum = 0.0;
    for (std::int64_t x = 0; x < problem_.head_dim; ++x) {
      sum += element(q, place_, x) * element(k, key(j), x);
    }
    return problem_.scale() * sum;
  }
  Place at(std::int64_t col) const { return {place_.b, place_.h, place_.row, col}; }
  Place key(std::size_t j) const {
    const std::int64_t sharing = problem_.num_heads_q / problem_.num_heads_kv;
    return {place_.b, place_.h / sharing, static_cast<std::int64_t>(j), 0};
  }
  static double element(const Values& values, const Place& p, std::int64_t col) {
    return static_cast<double>(values.at(p.b, p.h, p.row, col));
  }

  const Problem& problem_;
  Place place_;
  double largest_ = 0.0;
  double sum_ = 0.0;
  std::vector<double> p_;  // of the keys that the row sees
};

Answer make_answer(const Problem& problem, const Inputs& inputs) {
  const Values q = read_input(inputs, InputTensor::q), k = read_input(inputs, InputTensor::k);
  const Values v = read_input(inputs, InputTensor::v), dout = read_input(inputs, InputTensor::dout);
  Answer answer(problem);
  for (Place place; place.b < problem.batch; ++place.b) {
    for (place.h = 0; place.h < problem.num_heads_q; ++place.h) {
      for (place.row = 0; place.row < problem.queries(place.b); ++place.row) {
        const Row row(problem, q, k, place);
        row.add_forward(v, answer);
        if (!dout.empty()) row.add_backward(q, k, v, dout, answer);
      }
    }
  }
  return answer;
}

// Says what one property is about.
struct Scores {
  Pass pass = Pass::fwdbwd;
  std::string mask = "none";
  int score = 0;  // its power of two
  int bits = 22;  // that a score takes, less those of a weight
  Large large = Large::all_keys;
  Layout layout = Layout::bshd;
};

Problem make_problem(const Scores& scores, Dtype dtype) {
  const std::int64_t first_keys = scores.large == Large::first_keys ? kFirstKeys : 0;
  Problem problem = small_problem(dtype, scores.mask, 45, first_keys + 53);
  if (scores.large == Large::rounded_sums) problem.head_dim = 64;  // several steps of a tensor core
  problem.layout = scores.layout;
  if (scores.layout == Layout::packed) {
    problem.lengths = {
        .kind = LengthsKind::packed, .given = true, .queries = {30, 45}, .keys = {40, 53}};
  }
  return problem;
}

Property large_scores(const Scene& scene, Dtype dtype, const Scores& scores) {
  const Sizes sizes = make_sizes(dtype, scores.score, scores.bits, scores.large);
  const char* const of = scores.large == Large::first_keys     ? "-first"
                         : scores.large == Large::rounded_sums ? "-rounded"
                                                               : "";
  const char* const layout = scores.layout == Layout::packed ? "packed/" : "";
  Problem problem = make_problem(scores, dtype);
  problem.softmax_scale = static_cast<double>(power(sizes.scale));
  const auto subject =
      scene.subject(problem, [sizes](Inputs& inputs) { fill_scores(inputs, sizes); });
  Property property{
      .name = "large-scores",
      .variant = fmt::format("{}2^{}{}/{}-bits/{}/{}/{}", layout, scores.score, of, scores.bits,
                             scores.mask, to_string(scores.pass), to_string(dtype))};
  property.subjects = {subject};
  property.pass = scores.pass;
  if (scores.pass == Pass::bwd) property.without = Property::Without::skipped;
  property.scores_in_fp32 = scores.bits > 8;
  property.check = [subject](const Setup& setup, const Relation& relation) {
    const Run result = run(*subject, setup, Bounds::none);
    const Answer answer = make_answer(result.problem, subject->inputs());
    for (const Output output : {Output::o, Output::lse, Output::dq, Output::dk, Output::dv}) {
      const Exact& exact = answer.of(output);
      const double share = share_of_roundings(output, result.problem.dtype);
      relation.compare(
          result, output, [&](const Place& p) { return exact.value(p); },
          [&](const Place& p) {
            return share * (exact.size(p) + vanishing(result.problem.dtype));
          });
    }
  };
  return property;
}

}  // namespace

std::vector<Property> large_score_properties(const Scene& scene, Dtype dtype) {
  std::vector<Property> all;
  const auto add = [&](const Scores& scores) { all.push_back(large_scores(scene, dtype, scores)); };
  for (const int score : {4, 12, 20, 24, 28, 32, 40}) add({.score = score});
  for (const Pass pass : {Pass::fwd, Pass::bwd}) add({.pass = pass, .score = 24});
  for (const Pass pass : {Pass::fwd, Pass::bwd, Pass::fwdbwd}) {
    add({.pass = pass, .mask = "causal", .score = 40});
  }
  for (const char* mask : {"none", "causal"}) {
    add({.mask = mask, .score = 28, .layout = Layout::packed});
  }
  // An exponent that is off by half of the distance of numbers there leaves f16 alone, then fp32.
  for (const int score : {28, 30, 40}) add({.score = score, .large = Large::first_keys});
  for (const int score : {20, 28, 40}) add({.score = score, .large = Large::rounded_sums});
  // The storage type holds these scores: they are for kernels that keep scores in it.
  if (dtype == Dtype::f16) add({.score = 15, .bits = 8});
  if (dtype == Dtype::bf16) {
    for (const int score : {15, 40}) add({.score = score, .bits = 5});
  }
  return all;
}

}  // namespace attnlab::verify
