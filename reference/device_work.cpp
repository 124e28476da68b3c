#include "reference/device_work.h"

#include <algorithm>
#include <string>
#include <vector>

#include "reference/block_pattern.h"
#include "reference/dropout.h"
#include "reference/mask.h"
#include "reference/rounding.h"

namespace attnlab::reference {
namespace {

constexpr std::int64_t kThreads = 256;  // of device_kernels.cuh
// This rounds a subnormal number of f16; those of other types are nothing beside fp32's.
constexpr double kHalfStepF16 = 0x1p-25;
constexpr std::int64_t kMaxBlocks = 1 << 16;  // of kernels that go on with the stride of the grid

std::int64_t blocks_for(std::int64_t elements) {
  return std::min(kMaxBlocks, (elements + kThreads - 1) / kThreads);
}

std::int64_t most_keys(const Problem& problem) {
  std::int64_t most = 1;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    most = std::max(most, keys_in_memory(problem, b));
  }
  return most;
}

}  // namespace

device::Stored stored_as(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::e4m3: break;
    case Dtype::f16: return device::Stored::f16;
    case Dtype::bf16: return device::Stored::bf16;
  }
  return device::Stored::f32;
}

const void* element(const void* tensor, Dtype dtype, std::int64_t index) {
  return static_cast<const char*>(tensor) + index * size_bytes(dtype);
}

std::int64_t row_stride(const Problem& problem, Side side) {
  if (problem.layout == Layout::bhsd) return problem.head_dim;
  return problem.head_dim * (side == Side::query ? problem.num_heads_q : problem.num_heads_kv);
}

DeviceExpected::DeviceExpected(Runtime& runtime, std::int64_t rows, std::int64_t head_dim,
                               bool has_delta)
    : value(runtime, rows * head_dim),
      twin(runtime, rows * head_dim),
      sizes(runtime, rows * head_dim) {
  if (has_delta) delta = {runtime, rows * head_dim};
  value.clear();
  twin.clear();
  sizes.clear();
  if (has_delta) delta.clear();
}

DeviceWork::DeviceWork(const Problem& problem, const Tensors& inputs, Products products,
                       Runtime& runtime, Calculator& calculator, std::int64_t chunk_elements)
    : problem_(problem),
      inputs_(inputs),
      tf32_(products == Products::tf32),
      has_backward_(problem.pass != Pass::fwd),
      has_pz_(problem.dropout > 0.0),
      has_subnormal_(has_backward_ && problem.dtype == Dtype::f16),
      calculator_(calculator),
      unit_roundoff_(unit_roundoff(problem.dtype, products)),
      half_step_(problem.dtype == Dtype::f16 ? kHalfStepF16 : 0.0) {
  const std::int64_t keys = most_keys(problem);
  chunk_rows_ = std::clamp<std::int64_t>(chunk_elements / keys, 1, problem.seqlen_q);
  const auto factor = [&](std::int64_t rows, bool has_squares) {
    const std::int64_t count = rows * problem.head_dim;
    Factor made = {.exact = {runtime, count}, .twin = {runtime, count}, .sizes = {runtime, count}};
    if (has_squares) made.squares = {runtime, count};
    return made;
  };
  q_ = factor(chunk_rows_, true);
  k_ = factor(keys, true);
  v_ = factor(keys, false);
  const std::int64_t scores = chunk_rows_ * keys;
  p_ = {runtime, scores};
  twin_p_ = {runtime, scores};
  sizes_p_ = {runtime, scores};
  largest_scores_ = {runtime, chunk_rows_};
  score_squares_ = {runtime, chunk_rows_};
  if (has_pz_) pz_ = {runtime, scores};
  if (has_pz_ || tf32_) twin_pz_ = {runtime, scores};
  if (problem.mask.blocks) draw_blocks(runtime);
  if (!has_backward_) return;
  dout_ = factor(chunk_rows_, false);
  ds_ = {runtime, scores};
  twin_ds_ = {runtime, scores};
  sizes_ds_ = {runtime, scores};
  delta_ = {runtime, chunk_rows_};
  delta_sizes_ = {runtime, chunk_rows_};
  delta_errors_ = {runtime, chunk_rows_};
  errors_ = {runtime, scores};
  squares_ = {runtime, scores};
  if (has_subnormal_) o_errors_ = {runtime, chunk_rows_ * problem.head_dim};
}

void DeviceWork::draw_blocks(Runtime& runtime) {
  const auto pattern = draw_pattern(*problem_.mask.blocks, problem_.seqlen_q, problem_.seqlen_k);
  std::vector<std::uint8_t> bytes;
  for (const std::vector<bool>& row : pattern) {
    blocks_of_keys_ = static_cast<std::int64_t>(row.size());
    bytes.insert(bytes.end(), row.begin(), row.end());
  }
  blocks_ = {runtime, static_cast<std::int64_t>(bytes.size())};
  blocks_.write(bytes);
}

void DeviceWork::queue(const HeadPlace& place, DeviceOutputs& outputs) {
  const std::int64_t rows = rows_in_memory(problem_, place.batch);
  const std::int64_t keys = keys_in_memory(problem_, place.batch);
  gather(inputs_.k, Side::key, place, 0, keys, k_);
  gather(inputs_.v, Side::key, place, 0, keys, v_);
  for (std::int64_t first = 0; first < rows; first += chunk_rows_) {
    const std::int64_t count = std::min(chunk_rows_, rows - first);
    const Chunk chunk = {.place = place,
                         .outputs = outputs,
                         .first_row = place.first_row + first,
                         .rows = rows_of(place, first, count),
                         .opens_keys = place.opens_keys && first == 0};
    gather(inputs_.q, Side::query, place, first, count, q_);
    attend(chunk);
    if (!has_backward_) continue;
    gather(inputs_.dout, Side::query, place, first, count, dout_);
    differentiate(chunk);
    add_to_keys(chunk);
  }
}

void DeviceWork::gather(const void* tensor, Side side, const HeadPlace& place, std::int64_t first,
                        std::int64_t rows, Factor& factor) {
  const std::int64_t head = side == Side::query ? place.head : kv_head(problem_, place.head);
  const device::GatherArguments arguments = {
      .from = element(tensor, problem_.input_dtype(),
                      row_offset(problem_, side, place.batch, head, first)),
      .stored = stored_as(problem_.input_dtype()),
      .rounds_to_tf32 = tf32_,
      .stride = row_stride(problem_, side),
      .rows = rows,
      .columns = problem_.head_dim,
      .exact = factor.exact.get(),
      .factors = factor.twin.get(),
      .sizes = factor.sizes.get(),
      .squares = factor.squares.get()};
  launch("gather", blocks_for(rows * problem_.head_dim), arguments);
}

device::Rows DeviceWork::rows_of(const HeadPlace& place, std::int64_t first,
                                 std::int64_t count) const {
  const std::int64_t keys = keys_in_memory(problem_, place.batch);
  const MaskSpec& mask = problem_.mask;
  device::Rows rows = {
      .first = first,
      .count = count,
      .keys = keys,
      .visible_keys = problem_.lengths.kind == LengthsKind::padding
                          ? problem_.lengths.keys[static_cast<std::size_t>(place.batch)]
                          : keys,
      .diagonal = keys - rows_in_memory(problem_, place.batch),
      .causal = mask.causal,
      .windowed = mask.window.has_value(),
      .threshold = dropout_threshold(problem_),
      .slice = static_cast<std::uint32_t>(place.batch * problem_.num_heads_q + place.head),
      .seed = problem_.seed,
      .keep_scale = dropout_keep_scale(problem_)};
  if (mask.window) {
    rows.left = mask.window->left;
    rows.right = mask.window->right;
  }
  if (mask.blocks) {
    rows.blocks = blocks_.get();
    rows.block_q = mask.blocks->block_q;
    rows.block_k = mask.blocks->block_k;
    rows.blocks_of_keys = blocks_of_keys_;
  }
  return rows;
}

device::ScoreSizes DeviceWork::score_sizes(const Chunk& chunk) const {
  return {.head_dim = problem_.head_dim,
          .largest = largest_scores_.get(),
          .bounds = chunk.outputs.score_bounds.get() + chunk.first_row,
          .squares = score_squares_.get()};
}

// Makes P, lse and O.
void DeviceWork::attend(const Chunk& chunk) {
  const device::Rows& rows = chunk.rows;
  const MatrixProduct scores = {.rows = rows.count,
                                .columns = rows.keys,
                                .inner = problem_.head_dim,
                                .right_is_transposed = true};
  const auto scale = static_cast<float>(problem_.scale());
  DeviceOutputs& to = chunk.outputs;
  calculator_.multiply(scores, q_.exact.get(), k_.exact.get(), p_.get());
  launch("softmax", rows.count,
         device::SoftmaxArguments{.rows = rows,
                                  .scale = problem_.scale(),
                                  .p = p_.get(),
                                  .lse = to.lse.get() + chunk.first_row,
                                  .largest = largest_scores_.get()});
  calculator_.multiply(scores, q_.twin.get(), k_.twin.get(), twin_p_.get());
  launch(problem_.is_e4m3() ? "twin_softmax_e4m3" : "twin_softmax", rows.count,
         device::TwinSoftmaxArguments{.rows = rows,
                                      .stored = stored_as(problem_.dtype),
                                      .rounds_to_tf32 = tf32_,
                                      .scale = scale,
                                      .p = twin_p_.get(),
                                      .pz = twin_pz(),
                                      .lse = to.lse_twin.get() + chunk.first_row});
  const auto bound_scores = [&](float factor, float* bounds) {
    launch("bound_scores", rows.count,
           device::ScoreBoundArguments{
               .rows = rows, .scale = factor, .sums = sizes_p_.get(), .bounds = bounds});
  };
  calculator_.multiply(scores, q_.squares.get(), k_.squares.get(), sizes_p_.get());
  bound_scores(scale * scale, score_squares_.get());
  calculator_.multiply(scores, q_.sizes.get(), k_.sizes.get(), sizes_p_.get());
  bound_scores(scale, to.score_bounds.get() + chunk.first_row);
  launch("weigh", blocks_for(rows.count * rows.keys),
         device::WeightArguments{.rows = rows,
                                 .scores = score_sizes(chunk),
                                 .p = p_.get(),
                                 .pz = pz_.get(),
                                 .sizes = sizes_p_.get()});
  const MatrixProduct output = {
      .rows = rows.count, .columns = problem_.head_dim, .inner = rows.keys};
  const std::int64_t at = chunk.first_row * problem_.head_dim;
  calculator_.multiply(output, pz(), v_.exact.get(), to.o.value.get() + at);
  calculator_.multiply(output, twin_pz(), v_.twin.get(), to.o.twin.get() + at);
  calculator_.multiply(output, sizes_p_.get(), v_.sizes.get(), to.o.sizes.get() + at);
}

// Makes dS and dQ.
void DeviceWork::differentiate(const Chunk& chunk) {
  const device::Rows& rows = chunk.rows;
  const MatrixProduct scores = {.rows = rows.count,
                                .columns = rows.keys,
                                .inner = problem_.head_dim,
                                .right_is_transposed = true};
  const MatrixProduct output = {
      .rows = rows.count, .columns = problem_.head_dim, .inner = rows.keys};
  DeviceOutputs& to = chunk.outputs;
  const std::int64_t at = chunk.first_row * problem_.head_dim;
  calculator_.multiply(scores, dout_.exact.get(), v_.exact.get(), ds_.get());
  calculator_.multiply(scores, dout_.twin.get(), v_.twin.get(), twin_ds_.get());
  calculator_.multiply(scores, dout_.sizes.get(), v_.sizes.get(), sizes_ds_.get());
  if (has_subnormal_) {
    launch("find_subnormal", blocks_for(rows.count * rows.keys),
           device::SubnormalArguments{.rows = rows, .p = p_.get(), .errors = errors_.get()});
    calculator_.multiply(output, errors_.get(), v_.sizes.get(), o_errors_.get());
  }
  launch("sum_delta", rows.count,
         device::DeltaArguments{.rows = rows,
                                .columns = problem_.head_dim,
                                .unit_roundoff = static_cast<float>(unit_roundoff_),
                                .half_step = static_cast<float>(half_step_),
                                .o_errors = o_errors_.get(),
                                .dout = dout_.exact.get(),
                                .o = to.o.value.get() + at,
                                .p = p_.get(),
                                .dp = ds_.get(),
                                .delta = delta_.get(),
                                .sizes = delta_sizes_.get(),
                                .errors = delta_errors_.get()});
  launch("differentiate", blocks_for(rows.count * rows.keys),
         device::DifferentiateArguments{.rows = rows,
                                        .scores = score_sizes(chunk),
                                        .p = p_.get(),
                                        .ds = ds_.get(),
                                        .delta = delta_.get(),
                                        .delta_sizes = delta_sizes_.get(),
                                        .delta_errors = delta_errors_.get(),
                                        .sizes = sizes_ds_.get(),
                                        .errors = errors_.get(),
                                        .squares = squares_.get()});
  launch("twin_differentiate", rows.count,
         device::TwinDifferentiateArguments{.rows = rows,
                                            .stored = stored_as(problem_.dtype),
                                            .rounds_to_tf32 = tf32_,
                                            .p = twin_p_.get(),
                                            .ds = twin_ds_.get()});
  calculator_.multiply(output, ds_.get(), k_.exact.get(), to.dq.value.get() + at);
  calculator_.multiply(output, twin_ds_.get(), k_.twin.get(), to.dq.twin.get() + at);
  calculator_.multiply(output, sizes_ds_.get(), k_.sizes.get(), to.dq.sizes.get() + at);
  calculator_.multiply(output, errors_.get(), k_.twin.get(), to.dq.delta.get() + at);
}

// Adds to dK and dV: sums over all chunks of all heads that share the keys.
void DeviceWork::add_to_keys(const Chunk& chunk) {
  const device::Rows& rows = chunk.rows;
  const MatrixProduct output = {.rows = rows.keys,
                                .columns = problem_.head_dim,
                                .inner = rows.count,
                                .left_is_transposed = true,
                                .adds = !chunk.opens_keys};
  DeviceOutputs& to = chunk.outputs;
  const std::int64_t at = chunk.place.first_key * problem_.head_dim;
  launch("mark_seen", (rows.keys + kThreads - 1) / kThreads,
         device::SeenArguments{.rows = rows, .seen = to.seen.get() + chunk.place.first_key});
  calculator_.multiply(output, ds_.get(), q_.exact.get(), to.dk.value.get() + at);
  calculator_.multiply(output, twin_ds_.get(), q_.twin.get(), to.dk.twin.get() + at);
  calculator_.multiply(output, sizes_ds_.get(), q_.sizes.get(), to.dk.sizes.get() + at);
  calculator_.multiply(output, squares_.get(), q_.squares.get(), to.dk.delta.get() + at);
  calculator_.multiply(output, pz(), dout_.exact.get(), to.dv.value.get() + at);
  calculator_.multiply(output, twin_pz(), dout_.twin.get(), to.dv.twin.get() + at);
  calculator_.multiply(output, sizes_p_.get(), dout_.sizes.get(), to.dv.sizes.get() + at);
}

template <class Arguments>
void DeviceWork::launch(const char* entry, std::int64_t blocks, const Arguments& arguments) {
  calculator_.launch(entry, static_cast<std::uint64_t>(blocks), &arguments);
}

KernelUnit device_reference_unit() {
  KernelUnit unit = {.name = "reference",
                     .source =
                         "#include \"reference/device_kernels.cuh\"\n"
                         "namespace device = attnlab::reference::device;\n",
                     .always_built_in = true};
  const auto add = [&](const std::string& entry, const std::string& arguments) {
    unit.source += "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(kThreads) +
                   ")\n" + entry + "(const __grid_constant__ device::" + arguments +
                   " arguments) {\n  device::" + entry + "(arguments);\n}\n";
    unit.entries.push_back({.name = entry, .threads = static_cast<int>(kThreads)});
  };
  add("gather", "GatherArguments");
  add("softmax", "SoftmaxArguments");
  add("twin_softmax", "TwinSoftmaxArguments");
  add("twin_softmax_e4m3", "TwinSoftmaxArguments");
  add("bound_scores", "ScoreBoundArguments");
  add("weigh", "WeightArguments");
  add("find_subnormal", "SubnormalArguments");
  add("sum_delta", "DeltaArguments");
  add("differentiate", "DifferentiateArguments");
  add("twin_differentiate", "TwinDifferentiateArguments");
  add("mark_seen", "SeenArguments");
  add("compare", "CompareArguments");
  add("count_nan", "NanArguments");
  return unit;
}

}  // namespace attnlab::reference
