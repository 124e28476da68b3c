#include "reference/identities.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>

#include "reference/bounds.h"
#include "reference/comparison.h"
#include "reference/dropout.h"
#include "reference/mask.h"
#include "reference/storage.h"

namespace attnlab::reference {
namespace {

constexpr double kFactor = 8.0;
constexpr double kRoundings = 2.0;
constexpr double kLeastShare = 0x1p-13;  // of fp32, whose errors differ more from head to head
constexpr double kRoundingsOfDelta = 4.0;
constexpr double kHalfStepF16 = 0x1p-25;     // that rounds a subnormal number
constexpr std::int64_t kRowsOfABlock = 512;  // read at a time, and summed in fp32
// All heads that are looked at may cost this, in multiply-adds: about a second of one thread.
constexpr double kMostMultiplyAdds = 0x1p33;

// OuterSum sums over rows x y^T, (head_dim, head_dim), (||x|| ||y||)^2, ||x||^2 and ||y||^2.
struct OuterSum {
  Matrix<double> sum;
  double sizes = 0.0, left = 0.0, right = 0.0;
};

// Reads rows of head `head` of an entry, `count` of them from `first` on.
Matrix<float> read_rows(const Problem& problem, const void* tensor, Side side, std::int64_t batch,
                        std::int64_t head, std::int64_t first, std::int64_t count) {
  Matrix<float> rows(count, problem.head_dim);
  for (std::int64_t i = 0; i < count; ++i) {
    read_elements(problem.dtype, tensor, row_offset(problem, side, batch, head, first + i),
                  problem.head_dim, rows.row(i).data());
  }
  return rows;
}

Eigen::VectorXd squared_norms(const Matrix<float>& rows) {
  return rows.cast<double>().rowwise().squaredNorm();
}

void add_head(const Problem& problem, const void* left, const void* right, Side side,
              std::int64_t batch, std::int64_t head, OuterSum& sum) {
  const std::int64_t rows =
      side == Side::query ? rows_in_memory(problem, batch) : keys_in_memory(problem, batch);
  for (std::int64_t first = 0; first < rows; first += kRowsOfABlock) {
    const std::int64_t count = std::min(kRowsOfABlock, rows - first);
    const Matrix<float> x = read_rows(problem, left, side, batch, head, first, count);
    const Matrix<float> y = read_rows(problem, right, side, batch, head, first, count);
    sum.sum += Matrix<float>(x.transpose() * y).cast<double>();
    const Eigen::VectorXd of_x = squared_norms(x), of_y = squared_norms(y);
    sum.sizes += of_x.dot(of_y);
    sum.left += of_x.sum();
    sum.right += of_y.sum();
  }
}

// Identity says: left^T right of a K/V head is the sum of left^T right of its query heads.
struct Identity {
  const char* name;     // of the verdict
  const char* of_rows;  // of the tensor on the other side
  const char* text;
  const void *key_left, *key_right;  // of the K/V head
  const void *row_left, *row_right;  // of its query heads
  double factor;                     // of the products of P or dS: dropout's, or scale
};

// Returns the first query head of a K/V head, and the one after the last.
std::pair<std::int64_t, std::int64_t> heads_of(const Problem& problem, std::int64_t head_kv) {
  const std::int64_t sharing = problem.num_heads_q / problem.num_heads_kv;
  return {head_kv * sharing, (head_kv + 1) * sharing};
}

Held hold(const Problem& problem, const Identity& identity, double rho, std::int64_t batch,
          std::int64_t head_kv) {
  const OuterSum nothing = {.sum = Matrix<double>::Zero(problem.head_dim, problem.head_dim)};
  OuterSum keys = nothing, rows = nothing;
  add_head(problem, identity.key_left, identity.key_right, Side::key, batch, head_kv, keys);
  const auto [first, end] = heads_of(problem, head_kv);
  for (std::int64_t head = first; head < end; ++head) {
    add_head(problem, identity.row_left, identity.row_right, Side::query, batch, head, rows);
  }
  Held held = {.figure = (keys.sum - rows.sum).norm(),
               .allowed = kFactor * rho * std::sqrt(keys.sizes + rows.sizes)};
  const double step = problem.dtype == Dtype::f16 ? kHalfStepF16 : kUnderflow;
  const double key = std::sqrt(keys.left), row = std::sqrt(rows.right);
  const double root = std::sqrt(static_cast<double>(problem.head_dim));
  held.allowed += kFactor * step * (identity.factor * key * row + root * (key + row));
  return held;
}

// Returns delta's size in dQ^T Q: where dP and delta cancel, dS is rounding alone.
double size_of_delta(const Problem& problem, const Tensors& tensors, std::int64_t batch,
                     std::int64_t head_kv) {
  const std::int64_t rows = rows_in_memory(problem, batch), keys = keys_in_memory(problem, batch);
  if (keys == 0) return 0.0;
  const auto norms = [&](const void* tensor, Side side, std::int64_t head, std::int64_t count) {
    return squared_norms(read_rows(problem, tensor, side, batch, head, 0, count));
  };
  double sum = 0.0;
  const auto [first, end] = heads_of(problem, head_kv);
  for (std::int64_t head = first; head < end; ++head) {
    const auto of = [&](const void* tensor) { return norms(tensor, Side::query, head, rows); };
    sum += of(tensors.q).cwiseProduct(of(tensors.dout)).dot(of(tensors.o));
  }
  return problem.scale() * std::sqrt(norms(tensors.k, Side::key, head_kv, keys).maxCoeff() * sum);
}

// Returns the larger share of its norm by which one of the identity's two tensors is off; infinite
// where all that was compared should be 0.
double largest_share(const std::vector<Verdict>& verdicts, const Identity& identity) {
  double share = 0.0;
  for (const Verdict& verdict : verdicts) {
    if (verdict.tensor != identity.name && verdict.tensor != identity.of_rows) continue;
    share = std::max(share, verdict.rel_fro);
  }
  return share;
}

using KvHead = std::pair<std::int64_t, std::int64_t>;  // batch, head

// Returns heads of which no key was compared, drawn by the samples' seed if all cost too much.
std::vector<KvHead> choose_heads(const Problem& problem, const References& references) {
  std::set<KvHead> compared;
  for (const ColumnReference& reference : references.columns) {
    compared.insert({reference.sample.batch, reference.sample.head_kv});
  }
  std::vector<KvHead> heads;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t head = 0; head < problem.num_heads_kv; ++head) {
      if (!compared.contains({b, head})) heads.push_back({b, head});
    }
  }
  std::mt19937_64 random(references.seed);
  for (std::size_t i = heads.size(); i > 1; --i) std::swap(heads[i - 1], heads[random() % i]);
  const std::int64_t sharing = problem.num_heads_q / problem.num_heads_kv;
  double left = kMostMultiplyAdds;
  const auto unaffordable = std::ranges::find_if(heads, [&](const KvHead& head) {
    const std::int64_t rows =
        rows_in_memory(problem, head.first) * sharing + keys_in_memory(problem, head.first);
    left -= 2.0 * static_cast<double>(rows * problem.head_dim * problem.head_dim);
    return left < 0.0;
  });
  heads.erase(unaffordable, heads.end());
  return heads;
}

}  // namespace

void check_identities(const Problem& problem, const Tensors& tensors, const References& references,
                      std::vector<Verdict>& verdicts) {
  const std::vector<KvHead> heads = choose_heads(problem, references);
  if (tensors.o == nullptr) return;
  const Identity identities[] = {{"dk", "dq", "K^T dK and dQ^T Q", tensors.k, tensors.dk,
                                  tensors.dq, tensors.q, problem.scale()},
                                 {"dv", "o", "V^T dV and O^T dO", tensors.v, tensors.dv, tensors.o,
                                  tensors.dout, dropout_keep_scale(problem)}};
  for (const Identity& identity : identities) {
    const auto verdict = std::ranges::find(verdicts, identity.name, &Verdict::tensor);
    if (verdict == verdicts.end() || !verdict->pass) continue;
    const double e = unit_roundoff(problem.dtype, references.products);
    const double rho = largest_share(verdicts, identity) + std::max(kRoundings * e, kLeastShare);
    if (std::isinf(rho)) continue;  // nothing is known of what rounding does to it
    for (const auto& [batch, head] : heads) {
      Held held = hold(problem, identity, rho, batch, head);
      if (verdict->tensor == "dk") {
        held.allowed += kRoundingsOfDelta * e * size_of_delta(problem, tensors, batch, head);
      }
      if (held.holds()) continue;
      const Element place = {.side = Side::key, .batch = batch, .head = head};
      verdict->pass = false;
      verdict->failed_bound = "identity";
      verdict->message = verdict->tensor + " of " + place_of(place, false) + ": " + identity.text +
                         " differ by " + number(held.figure) + ", above " + number(held.allowed) +
                         "; " + problem.id();
      break;
    }
  }
}

}  // namespace attnlab::reference
