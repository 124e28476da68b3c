// Deals out the work: the rows cut into chunks for all threads, and the sums over chunks.
#include "reference/oracle.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "reference/judged_inputs.h"
#include "reference/rounding.h"
#include "reference/storage.h"
#include "reference/twin.h"
#include "reference/work.h"

namespace attnlab::reference {
namespace {

void resize(Expected& expected, Eigen::Index rows, Eigen::Index head_dim) {
  expected.value.resize(rows, head_dim);
  expected.twin.resize(rows, head_dim);
  expected.sizes.resize(rows);
}

// A column is summed within tasks first, then over tasks; how many there are does not depend on the
// number of threads, so neither does the result.
constexpr std::size_t kTasksOfColumn = 16;

// Plan lays all the work out before it starts.
class Plan {
 public:
  Plan(const Problem& problem, const Tensors& tensors, const Samples& samples, Products products)
      : problem_(problem),
        given_(tensors),
        inputs_(std::make_shared<const JudgedInputs>(problem, tensors)),
        visibility_(problem) {
    references_.products = products;
    references_.score_step = score_step(problem, inputs_->tensors().q, inputs_->tensors().k);
    references_.seed = samples.seed;
    if (problem.is_e4m3()) references_.cut_off = std::make_shared<CutOff>(problem, inputs_);
    for (const Sample& sample : samples.rows) add_reference(sample);
    for (const ColumnSample& sample : samples.columns) add_reference(sample);
    for (ColumnReference& reference : references_.columns) add_columns(reference);
    for (RowReference& reference : references_.rows) {
      if (!comes_with_columns(reference)) add_rows(reference);
    }
  }

  void run(int threads) {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t i = next++; i < tasks_.size(); i = next++) {
        reference::run(problem_, references_.products, tasks_[i]);
      }
    };
    std::vector<std::future<void>> others;
    for (int t = 1; t < threads; ++t) others.push_back(std::async(std::launch::async, work));
    work();
    for (std::future<void>& other : others) other.get();  // rethrows what a thread threw
  }

  References take() {
    for (ColumnReference& reference : references_.columns) join_columns(reference);
    return std::move(references_);
  }

 private:
  void add_reference(const Sample& sample) {
    const auto rows = static_cast<Eigen::Index>(sample.rows.size());
    RowReference& reference = references_.rows.emplace_back();
    reference.sample = sample;
    reference.lse.resize(rows);
    reference.lse_twin.resize(rows);
    reference.score_bound.resize(rows);
    resize(reference.o, rows, problem_.head_dim);
    if (problem_.is_e4m3()) reference.unquantised.resize(rows, problem_.head_dim);
    if (problem_.pass == Pass::fwd) return;
    resize(reference.dq, rows, problem_.head_dim);
    // Stays 0 in rows of an entry without keys.
    reference.dq.delta_error.setZero(rows, problem_.head_dim);
  }

  void add_reference(const ColumnSample& sample) {
    ColumnReference& reference = references_.columns.emplace_back();
    reference.sample = sample;
  }

  // Returns whether all rows and columns are wanted: then one look at the rows serves both.
  bool comes_with_columns(const RowReference& reference) const {
    const Sample& sample = reference.sample;
    const auto all_rows = static_cast<std::size_t>(rows_in_memory(problem_, sample.batch));
    const auto all_keys = static_cast<std::size_t>(keys_in_memory(problem_, sample.batch));
    if (sample.rows.size() < all_rows) return false;
    return std::any_of(references_.columns.begin(), references_.columns.end(),
                       [&](const ColumnReference& columns) {
                         return columns.sample.batch == sample.batch &&
                                columns.sample.head_kv == kv_head(problem_, sample.head) &&
                                columns.sample.keys.size() == all_keys;
                       });
  }

  RowReference* reference_with_columns(std::int64_t batch, std::int64_t head) {
    for (RowReference& reference : references_.rows) {
      const Sample& sample = reference.sample;
      if (sample.batch == batch && sample.head == head && comes_with_columns(reference)) {
        return &reference;
      }
    }
    return nullptr;
  }

  void add_rows(RowReference& reference) {
    const Sample& sample = reference.sample;
    for (Chunk& chunk : chunks_of(sample.batch, sample.head, sample.rows, &reference)) {
      tasks_.emplace_back().chunks.push_back(std::move(chunk));
    }
  }

  void add_columns(ColumnReference& reference) {
    const ColumnSample& sample = reference.sample;
    std::vector<Chunk> chunks;
    for (std::int64_t head = 0; head < problem_.num_heads_q; ++head) {
      if (kv_head(problem_, head) != sample.head_kv) continue;
      std::vector<std::int64_t> rows(
          static_cast<std::size_t>(rows_in_memory(problem_, sample.batch)));
      std::iota(rows.begin(), rows.end(), 0);
      RowReference* all_rows = reference_with_columns(sample.batch, head);
      if (all_rows == nullptr) {  // rows that see none of the keys give nothing
        const Slice slice(problem_, inputs_->tensors(), visibility_, sample.batch, head, 1);
        std::erase_if(rows, [&](auto row) { return !slice.sees_any(row, sample.keys); });
      }
      for (Chunk& chunk : chunks_of(sample.batch, head, rows, all_rows)) {
        chunks.push_back(std::move(chunk));
      }
    }
    const std::size_t tasks = std::min(chunks.size(), kTasksOfColumn);
    for (std::size_t task = 0; task < tasks; ++task) {
      Task& part = tasks_.emplace_back();
      part.reference = &reference;
      for (std::size_t i = chunks.size() * task / tasks; i < chunks.size() * (task + 1) / tasks;
           ++i) {
        part.chunks.push_back(std::move(chunks[i]));
      }
    }
  }

  std::vector<Chunk> chunks_of(std::int64_t batch, std::int64_t head,
                               const std::vector<std::int64_t>& rows, RowReference* reference) {
    const auto wanted = static_cast<std::int64_t>(rows.size());
    const Slice& slice =
        slices_.emplace_back(problem_, inputs_->tensors(), visibility_, batch, head, wanted);
    const bool is_e4m3 = problem_.is_e4m3() && reference != nullptr;
    const Slice* const unquantised =
        is_e4m3 ? &slices_.emplace_back(problem_, given_, visibility_, batch, head, wanted)
                : nullptr;
    std::vector<Chunk> chunks;
    const auto height = static_cast<std::ptrdiff_t>(slice.chunk_rows());
    const auto count = static_cast<std::ptrdiff_t>(rows.size());
    for (std::ptrdiff_t first = 0; first < count; first += height) {
      const auto last = std::min(first + height, count);
      chunks.push_back({.slice = &slice,
                        .unquantised = unquantised,
                        .rows = {rows.begin() + first, rows.begin() + last},
                        .reference = reference,
                        .first = first});
    }
    return chunks;
  }

  void join_columns(ColumnReference& reference) {
    const auto keys = static_cast<Eigen::Index>(reference.sample.keys.size());
    const Eigen::Index head_dim = problem_.head_dim;
    auto exact = ColumnSums<double>::zero(keys, head_dim);
    auto twin = ColumnSums<float>::zero(keys, head_dim);
    auto sizes = ColumnSums<float>::zero(keys, head_dim);
    Matrix<float> squares = Matrix<float>::Zero(keys, head_dim);
    reference.seen.assign(static_cast<std::size_t>(keys), false);
    for (const Task& task : tasks_) {
      if (task.reference != &reference) continue;
      exact += task.parts.exact;
      twin += task.parts.twin;
      sizes += task.parts.sizes;
      squares += task.parts.delta_squares;
      for (std::size_t j = 0; j < reference.seen.size(); ++j) {
        reference.seen[j] = reference.seen[j] || task.parts.seen[j];
      }
    }
    const double scale = problem_.scale();
    reference.dk = {.value = scale * exact.dk,
                    .twin = twin_round(problem_, scale, twin.dk),
                    .sizes = static_cast<float>(scale) * sizes.dk.rowwise().maxCoeff(),
                    .delta_error = static_cast<float>(scale) * squares.cwiseSqrt()};
    reference.dv = {.value = exact.dv,
                    .twin = twin_round(problem_, 1.0, twin.dv),
                    .sizes = sizes.dv.rowwise().maxCoeff()};
  }

  const Problem& problem_;
  const Tensors& given_;
  const std::shared_ptr<const JudgedInputs> inputs_;
  Visibility visibility_;
  References references_;
  std::deque<Slice> slices_;
  std::vector<Task> tasks_;
};

}  // namespace

References make_references(const Problem& problem, const Tensors& tensors, const Samples& samples,
                           int threads, Products products) {
  if (products == Products::tf32 && problem.dtype != Dtype::f32) {
    throw std::invalid_argument(std::string("products in TF32 are of f32, and the problem is of ") +
                                to_string(problem.dtype));
  }
  Plan plan(problem, tensors, samples, products);
  plan.run(threads);
  return plan.take();
}

}  // namespace attnlab::reference
