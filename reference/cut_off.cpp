#include "reference/cut_off.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "reference/storage.h"

namespace attnlab::reference {
namespace {

constexpr std::size_t kProducts = 32;  // that one wgmma adds
constexpr int kBits = 13;              // that it keeps behind the leading one

// Sum has a sum of products of codes, and the most that a tensor core may lose of it.
struct Sum {
  double value = 0.0;
  double cut = 0.0;
};

// Returns the last bit that is kept beside an addend of this size.
double unit_beside(double size) {
  return size > 0.0 ? std::ldexp(1.0, std::ilogb(size) - kBits) : 0.0;
}

// Adds up to kProducts products: what each of them, the sum before and the sum after may lose.
void add(const float* q, const float* k, std::size_t count, Sum& sum) {
  const double before = std::abs(sum.value) + sum.cut;
  double largest = before;
  for (std::size_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(q[i]) * static_cast<double>(k[i])));
  }
  const double unit = unit_beside(largest);
  if (unit == 0.0) return;
  for (std::size_t i = 0; i < count; ++i) {
    const double product = static_cast<double>(q[i]) * static_cast<double>(k[i]);
    sum.value += product;
    sum.cut += std::fmod(std::abs(product), unit);
  }
  sum.cut += std::min(before, unit);
  sum.cut += unit_beside(std::abs(sum.value) + sum.cut);
}

Sum product_of(const std::vector<float>& q, const std::vector<float>& k) {
  Sum sum;
  for (std::size_t first = 0; first < q.size(); first += kProducts) {
    add(q.data() + first, k.data() + first, std::min(kProducts, q.size() - first), sum);
  }
  return sum;
}

}  // namespace

CutOff::CutOff(const Problem& problem, std::shared_ptr<const JudgedInputs> inputs)
    : problem_(problem), inputs_(std::move(inputs)), visibility_(problem) {}

double CutOff::of_lse(std::int64_t batch, std::int64_t head, std::int64_t row, double lse) const {
  const JudgedInputs::Row q = inputs_->row(Side::query, batch, head, row);
  double sum = 0.0;
  for (std::int64_t key = 0; key < keys_in_memory(problem_, batch); ++key) {
    if (!visibility_.sees(batch, row, key)) continue;
    const JudgedInputs::Row k = inputs_->row(Side::key, batch, kv_head(problem_, head), key);
    const double scale =
        problem_.scale() * static_cast<double>(q.scale) * static_cast<double>(k.scale);
    const Sum product = product_of(q.codes, k.codes);
    sum += std::exp(scale * (product.value + product.cut) - lse);
  }
  return std::log(sum);
}

}  // namespace attnlab::reference
