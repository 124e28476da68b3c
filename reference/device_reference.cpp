#include "reference/device_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "reference/comparison.h"
#include "reference/judged_inputs.h"
#include "reference/mask.h"
#include "reference/nan_scan.h"
#include "reference/rounding.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

using device::DeltaForm;

constexpr std::int64_t kWarpsOfBlock = 8;             // of device_kernels.cuh
constexpr std::int64_t kRowsOfBlock = kWarpsOfBlock;  // of device::compare(), a warp each
// device::count_nan() gives a warp this many elements, until the device has enough blocks.
constexpr std::int64_t kElementsOfNanWarp = 256;
constexpr std::int64_t kMostNanBlocks = 1024;

Errors errors(const device::ErrorSums& sums) {
  return {.largest = sums.largest, .sum = sums.sum, .sum_of_squares = sums.sum_of_squares};
}

Statistics statistics_of(const device::RowStatistics& row, std::int64_t columns, double alike) {
  Statistics statistics = {.kernel = errors(row.kernel),
                           .twin = errors(row.twin),
                           .delta = errors(row.delta),
                           .kernel_along = row.kernel_along,
                           .twin_along = row.twin_along,
                           .rounded_along = row.rounded_along,
                           .sum_of_squares = row.sum_of_squares,
                           .unit = row.unit};
  statistics.end_row(row.size, static_cast<double>(columns), alike);
  return statistics;
}

// Returns the elements that score_step() looks at, in memory of the process.
std::vector<std::byte> first_elements(Runtime& runtime, Dtype dtype, const void* tensor,
                                      std::int64_t elements) {
  const std::int64_t count = std::min(elements, kElementsOfStep);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count * size_bytes(dtype)));
  if (count > 0) runtime.read(bytes.data(), tensor, bytes.size());
  return bytes;
}

Element element_of(Element row, std::int64_t column, double got, double want) {
  row.column = column;
  row.got = got;
  row.want = want;
  return row;
}

}  // namespace

std::vector<Group> all_groups(const Problem& problem) {
  std::vector<Group> groups;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t head = 0; head < problem.num_heads_kv; ++head) groups.push_back({b, head});
  }
  return groups;
}

std::uint64_t device_reference_bytes(const Problem& problem, const std::vector<Group>& groups) {
  const std::int64_t sharing = problem.num_heads_q / problem.num_heads_kv;
  std::int64_t rows = 0, keys = 0, most_keys = 1;
  for (const Group& group : groups) {
    rows += sharing * rows_in_memory(problem, group.batch);
    keys += keys_in_memory(problem, group.batch);
    most_keys = std::max(most_keys, keys_in_memory(problem, group.batch));
  }
  constexpr std::int64_t kElementBytes = sizeof(double) + 3 * sizeof(float);  // of DeviceExpected
  constexpr std::int64_t kRowBytes = sizeof(device::RowStatistics) + 2 * sizeof(double);
  constexpr std::int64_t kScoreBytes = 3 * sizeof(double) + 7 * sizeof(float);  // of DeviceWork
  const bool backward = problem.pass != Pass::fwd;
  const std::int64_t outputs =
      problem.head_dim * ((backward ? 2 : 1) * rows + (backward ? 2 : 0) * keys);
  const std::int64_t scores =
      std::max(most_keys, std::min(kChunkElements, most_keys * problem.seqlen_q));
  const std::int64_t factors = 4 * problem.head_dim * (most_keys + problem.seqlen_q);
  const auto bytes = static_cast<std::uint64_t>(kElementBytes * (outputs + factors) +
                                                kRowBytes * (rows + keys) + kScoreBytes * scores);
  // An e4m3 problem also has references of its inputs before they were quantised.
  return problem.is_e4m3() ? 2 * bytes : bytes;
}

DeviceReference::DeviceReference(const Problem& problem, const Tensors& inputs, Products products,
                                 const std::vector<Group>& groups, Runtime& runtime,
                                 Calculator& calculator, std::int64_t chunk_elements)
    : problem_(problem), runtime_(runtime), calculator_(calculator) {
  if (products == Products::tf32 && problem.dtype != Dtype::f32) {
    throw std::invalid_argument(std::string("products in TF32 are of f32, and the problem is of ") +
                                to_string(problem.dtype));
  }
  const Tensors judged_inputs = judged(inputs);
  const Dtype dtype = problem.input_dtype();
  rows_.products = products;
  rows_.score_step = score_step(
      problem, first_elements(runtime, dtype, judged_inputs.q, problem.elements_q()).data(),
      first_elements(runtime, dtype, judged_inputs.k, problem.elements_k()).data());
  make_places(groups);
  expected_.lse = {runtime, num_rows_};
  expected_.lse.write(std::vector<double>(static_cast<std::size_t>(num_rows_),
                                          -std::numeric_limits<double>::infinity()));
  expected_.lse_twin = {runtime, num_rows_};
  expected_.score_bounds = {runtime, num_rows_};
  expected_.score_bounds.clear();
  const std::int64_t head_dim = problem.head_dim;
  expected_.o = {runtime, num_rows_, head_dim, false};
  if (problem.pass != Pass::fwd) {
    expected_.seen = {runtime, num_keys_};
    expected_.seen.clear();
    expected_.dq = {runtime, num_rows_, head_dim, true};
    expected_.dk = {runtime, num_keys_, head_dim, true};
    expected_.dv = {runtime, num_keys_, head_dim, false};
  }
  DeviceWork work(problem_, judged_inputs, products, runtime, calculator, chunk_elements);
  for (const HeadPlace& place : places_) {
    if (rows_in_memory(problem_, place.batch) * keys_in_memory(problem_, place.batch) > 0) {
      work.queue(place, expected_);
    }
  }
  read_rows();
  if (!problem.is_e4m3()) return;
  Problem plain = problem;
  plain.dtype = dtype;
  unquantised_ = std::make_unique<DeviceReference>(plain, inputs, products, groups, runtime,
                                                   calculator, chunk_elements);
}

// Returns the inputs that outputs are judged by. Of e4m3 the host makes them of q, k and v, as for
// the oracle, and the device gets them.
Tensors DeviceReference::judged(const Tensors& inputs) {
  if (!problem_.is_e4m3()) return inputs;
  std::vector<float> q(static_cast<std::size_t>(problem_.elements_q()));
  std::vector<float> k(static_cast<std::size_t>(problem_.elements_k()));
  std::vector<float> v(k.size());
  const auto read = [&](std::vector<float>& to, const void* from) {
    runtime_.read(to.data(), from, to.size() * sizeof(float));
    return to.data();
  };
  const Tensors drawn = {.q = read(q, inputs.q), .k = read(k, inputs.k), .v = read(v, inputs.v)};
  const auto judged = std::make_shared<const JudgedInputs>(problem_, drawn);
  rows_.cut_off = std::make_shared<CutOff>(problem_, judged);
  const auto send = [&](const void* from, std::size_t count) {
    const auto* const values = static_cast<const float*>(from);
    DeviceArray<float> array(runtime_, static_cast<std::int64_t>(count));
    array.write(std::vector<float>(values, values + count));
    return array;
  };
  q_ = send(judged->tensors().q, q.size());
  k_ = send(judged->tensors().k, k.size());
  v_ = send(judged->tensors().v, v.size());
  return {.q = q_.get(), .k = k_.get(), .v = v_.get()};
}

void DeviceReference::make_places(const std::vector<Group>& groups) {
  const std::int64_t sharing = problem_.num_heads_q / problem_.num_heads_kv;
  for (const Group& group : groups) {
    const std::int64_t rows = rows_in_memory(problem_, group.batch);
    for (std::int64_t i = 0; i < sharing; ++i) {
      places_.push_back({.batch = group.batch,
                         .head = group.head_kv * sharing + i,
                         .first_row = num_rows_,
                         .first_key = num_keys_,
                         .opens_keys = i == 0});
      num_rows_ += rows;
    }
    num_keys_ += keys_in_memory(problem_, group.batch);
  }
}

void DeviceReference::read_rows() {
  const std::vector<double> lse = expected_.lse.read();
  const std::vector<float> twin = expected_.lse_twin.read();
  const std::vector<float> bounds = expected_.score_bounds.read();
  for (const HeadPlace& place : places_) {
    const std::int64_t rows = rows_in_memory(problem_, place.batch);
    RowReference& reference = rows_.rows.emplace_back();
    reference.sample = {.batch = place.batch, .head = place.head, .rows = {}};
    reference.sample.rows.resize(static_cast<std::size_t>(rows));
    std::iota(reference.sample.rows.begin(), reference.sample.rows.end(), 0);
    reference.lse = Eigen::Map<const Eigen::VectorXd>(lse.data() + place.first_row, rows);
    reference.lse_twin = Eigen::Map<const Eigen::VectorXf>(twin.data() + place.first_row, rows);
    reference.score_bound =
        Eigen::Map<const Eigen::VectorXf>(bounds.data() + place.first_row, rows);
  }
}

std::vector<Verdict> DeviceReference::judge(const Problem& problem, const Tensors& outputs) {
  std::vector<Verdict> verdicts;
  const auto judge_one = [&](const Output& output, const DeviceExpected& expected,
                             device::DeltaForm delta_form, double scale) {
    const auto rows = compare(problem, output.side, expected, delta_form, scale, output.data);
    verdicts.push_back(judge_comparison(problem, rows_.products, output,
                                        join(output.side, expected, rows), rows.size()));
    fail_of_nan(verdicts.back(), problem, find_nan(problem, output));
  };
  const double scale = problem.scale();
  if (problem.pass != Pass::bwd) {
    judge_one({.name = "o", .data = outputs.o}, expected_.o, DeltaForm::none, 1.0);
    if (unquantised_) {
      verdicts.back().rmse_unquantised = unquantised_->rmse_of_o(problem, outputs.o);
    }
    if (outputs.lse != nullptr) {
      std::vector<float> lse(static_cast<std::size_t>(problem.elements_lse()));
      runtime_.read(lse.data(), outputs.lse, lse.size() * sizeof(float));
      verdicts.push_back(judge_lse(problem, lse.data(), rows_));
    }
  }
  if (problem.pass == Pass::fwd) return verdicts;
  judge_one({.name = "dq", .data = outputs.dq}, expected_.dq, DeltaForm::signed_sum, scale);
  judge_one({.name = "dk", .data = outputs.dk, .side = Side::key}, expected_.dk,
            DeltaForm::sum_of_squares, scale);
  judge_one({.name = "dv", .data = outputs.dv, .side = Side::key}, expected_.dv, DeltaForm::none,
            1.0);
  return verdicts;
}

// Returns the root mean square of o less what is expected here; `problem` is that of the output.
double DeviceReference::rmse_of_o(const Problem& problem, const void* o) {
  double sum = 0.0;
  for (const device::RowStatistics& row :
       compare(problem, Side::query, expected_.o, DeltaForm::none, 1.0, o)) {
    sum += row.kernel.sum_of_squares;
  }
  return std::sqrt(sum / static_cast<double>(num_rows_ * problem.head_dim));
}

// Looks at all of the output, whatever the groups, and reads it only to say where they are.
std::string DeviceReference::find_nan(const Problem& problem, const Output& output) {
  const std::int64_t elements =
      output.side == Side::query ? problem.elements_q() : problem.elements_k();
  const std::int64_t blocks =
      std::clamp<std::int64_t>(elements / (kWarpsOfBlock * kElementsOfNanWarp), 1, kMostNanBlocks);
  const DeviceArray<i64> found(runtime_, blocks * kWarpsOfBlock);
  const device::NanArguments arguments = {.tensor = output.data,
                                          .stored = stored_as(problem.output_dtype()),
                                          .elements = elements,
                                          .found = found.get()};
  calculator_.launch("count_nan", static_cast<std::uint64_t>(blocks), &arguments);
  if (std::ranges::all_of(found.read(), [](i64 of_warp) { return of_warp == 0; })) {
    return "";
  }
  std::vector<std::byte> copy(
      static_cast<std::size_t>(elements * size_bytes(problem.output_dtype())));
  runtime_.read(copy.data(), output.data, copy.size());
  return reference::find_nan(problem, output.name, output.side, copy.data());
}

// Compares all rows (keys) of the groups, in their order.
std::vector<device::RowStatistics> DeviceReference::compare(const Problem& problem, Side side,
                                                            const DeviceExpected& expected,
                                                            device::DeltaForm delta_form,
                                                            double scale, const void* output) {
  const bool of_rows = side == Side::query;
  const DeviceArray<device::RowStatistics> statistics(runtime_, of_rows ? num_rows_ : num_keys_);
  for (const HeadPlace& place : places_) {
    if (!of_rows && !place.opens_keys) continue;
    const std::int64_t count =
        of_rows ? rows_in_memory(problem_, place.batch) : keys_in_memory(problem_, place.batch);
    if (count == 0) continue;
    const std::int64_t head = of_rows ? place.head : kv_head(problem_, place.head);
    const std::int64_t first = of_rows ? place.first_row : place.first_key;
    const std::int64_t at = first * problem_.head_dim;
    const device::CompareArguments arguments = {
        .got = element(output, problem.output_dtype(),
                       row_offset(problem, side, place.batch, head, 0)),
        .stored = stored_as(problem.output_dtype()),
        .delta_form = delta_form,
        .stride = row_stride(problem, side),
        .rows = count,
        .columns = problem_.head_dim,
        .scale = scale,
        .value = expected.value.get() + at,
        .twin = expected.twin.get() + at,
        .sizes = expected.sizes.get() + at,
        .delta = delta_form == DeltaForm::none ? nullptr : expected.delta.get() + at,
        .lse = of_rows ? expected_.lse.get() + first : nullptr,
        .seen = of_rows ? nullptr : expected_.seen.get() + first,
        .statistics = statistics.get() + first};
    calculator_.launch("compare",
                       static_cast<std::uint64_t>((count + kRowsOfBlock - 1) / kRowsOfBlock),
                       &arguments);
  }
  return statistics.read();
}

Comparison DeviceReference::join(Side side, const DeviceExpected& expected,
                                 const std::vector<device::RowStatistics>& statistics) const {
  const bool of_rows = side == Side::query;
  const Precision precision = precision_of(problem_, rows_.products, side);
  ComparisonSum sum(precision);
  std::size_t next = 0;
  for (std::size_t head = 0; head < places_.size(); ++head) {
    const HeadPlace& place = places_[head];
    if (!of_rows && !place.opens_keys) continue;
    const std::int64_t count =
        of_rows ? rows_in_memory(problem_, place.batch) : keys_in_memory(problem_, place.batch);
    Element row = {.side = side,
                   .batch = place.batch,
                   .head = of_rows ? place.head : kv_head(problem_, place.head)};
    for (row.row = 0; row.row < count; ++row.row) {
      const device::RowStatistics& of_row = statistics[next++];
      const Element not_zero = of_row.not_zero_column < 0 ? Element{}
                                                          : element_of(row, of_row.not_zero_column,
                                                                       of_row.not_zero_got, 0.0);
      double alike = 0.0;
      if (&expected == &expected_.o) {
        const auto score_bound = static_cast<double>(rows_.rows[head].score_bound(row.row));
        alike = alike_share(precision, score_bound, rows_.score_step);
      }
      sum.add(statistics_of(of_row, problem_.head_dim, alike),
              element_of(row, of_row.worst_column, of_row.worst_got, of_row.worst_want), not_zero);
    }
  }
  return sum.end();
}

}  // namespace attnlab::reference
