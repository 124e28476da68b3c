#include "kernels/cuda/quantiser.h"

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device_buffer.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/unit_text.h"
#include "kernels/shared/quantise_arguments.h"

namespace attnlab::cuda {
namespace {

QuantiserConfig config_of(const Problem& problem, ScaleOf scale_of) {
  return {.head_dim = static_cast<i32>(problem.head_dim),
          .has_block_scales = scale_of == ScaleOf::block,
          .has_columns = scale_of == ScaleOf::channel};
}

QuantiserConfig config_of_qk(const Problem& problem) {
  QuantiserConfig config = config_of(problem, problem.quantisation.qk);
  config.rotates = problem.quantisation.rotate;
  return config;
}

QuantiserConfig config_of_v(const Problem& problem) {
  QuantiserConfig config = config_of(problem, problem.quantisation.v);
  config.transposes = true;
  return config;
}

ConfigFields fields_of(const QuantiserConfig& config) {
  return {count("head_dim", config.head_dim, "-d"), flag("rotates", config.rotates, "-rotates"),
          flag("transposes", config.transposes, "-transposes"),
          flag("has_block_scales", config.has_block_scales, "-blocks"),
          flag("has_columns", config.has_columns, "-columns")};
}

// Names the entries in the order in which they are launched.
KernelUnit unit_of(const QuantiserConfig& config) {
  const ConfigFields fields = fields_of(config);
  KernelUnit unit = {.name = unit_name("quantise", Dtype::e4m3, fields),
                     .source =
                         "#include \"kernels/device/quantise.cuh\"\nusing namespace "
                         "attnlab;\n" +
                         config_text("QuantiserConfig", fields),
                     .options = {"--fmad=false"}};
  const auto add = [&](const char* name) {
    unit.entries.push_back({.name = name, .threads = config.threads()});
    unit.source += kernel_text(unit.entries.back(), config.blocks(), {"QuantiseArguments"},
                               std::string("device::") + name + "<kConfig>");
  };
  if (!config.has_block_scales) add("find_amax");
  add("quantise_rows");
  return unit;
}

// Says how many numbers amax of a head has, and of the whole tensor.
struct AmaxSize {
  i64 of_head = 0, all = 0;
};

AmaxSize amax_size(const Problem& problem, ScaleOf scale_of, i64 heads) {
  switch (scale_of) {
    case ScaleOf::tensor: return {0, 1};
    case ScaleOf::head: return {1, problem.batch * heads};
    case ScaleOf::block: return {0, 0};
    case ScaleOf::channel: break;
  }
  return {problem.head_dim, problem.batch * heads * problem.head_dim};
}

// TensorQuantiser holds the kernels of one unit.
class TensorQuantiser {
 public:
  TensorQuantiser(const QuantiserConfig& config, const Device& device)
      : module_(load(unit_of(config), device)) {
    const std::vector<KernelEntry> entries = unit_of(config).entries;
    has_amax_ = entries.size() > 1;
    if (has_amax_) find_amax_ = {*module_, entries.front()};
    quantise_rows_ = {*module_, entries.back()};
  }

  // The first kernel overlaps what is in front of it in the stream only if `starts_early`.
  void operator()(CUstream stream, const QuantiseArguments& arguments, bool starts_early) const {
    LaunchGrid grid = {.blocks = static_cast<u64>(arguments.params.shape.batch * arguments.heads *
                                                  arguments.blocks),
                       .starts_early = starts_early};
    if (has_amax_) {
      find_amax_(stream, grid, arguments);
      grid.starts_early = true;
    }
    quantise_rows_(stream, grid, arguments);
  }

 private:
  std::shared_ptr<const Module> module_;
  bool has_amax_ = false;
  Kernel<QuantiseArguments> find_amax_, quantise_rows_;
};

class GpuQuantiser : public DeviceQuantiser {
 public:
  GpuQuantiser(const Problem& problem, const Device& device)
      : problem_(problem),
        stream_(as_stream(runtime_of(device).queue())),
        amax_q_(amax_size(problem, problem.quantisation.qk, problem.num_heads_q)),
        amax_k_(amax_size(problem, problem.quantisation.qk, problem.num_heads_kv)),
        amax_v_(amax_size(problem, problem.quantisation.v, problem.num_heads_kv)),
        rows_(config_of_qk(problem), device),
        rows_of_v_(config_of_v(problem), device),
        amax_(runtime_of(device), static_cast<u64>(max<i64>(1, words())) * sizeof(u32)) {}

  // The kernels of K start while those of Q end, and V's while K's do: they touch other memory.
  void launch(const Tensors& from, const E4m3Outputs& to) override {
    const Params params = make_params(problem_, from);
    auto* const amax = static_cast<u32*>(amax_.get());
    if (words() != 0) clear_words(stream_, amax, static_cast<u64>(words()), "clearing amax");
    const i64 blocks_q = ceil_div(problem_.seqlen_q, kScaleRows);
    const i64 blocks_k = ceil_div(problem_.seqlen_k, kScaleRows);
    const bool is_packed = problem_.layout == Layout::packed;
    QuantiseArguments of = {.params = params, .key = philox_key(problem_.seed)};
    of.is_query = true;
    of.heads = problem_.num_heads_q;
    of.blocks = blocks_q;
    of.values = static_cast<const float*>(from.q);
    of.codes = to.q;
    of.scales = to.scale_q;
    of.amax = amax;
    of.amax_of_head = amax_q_.of_head;
    rows_(stream_, of, false);
    of.is_query = false;
    of.heads = problem_.num_heads_kv;
    of.blocks = blocks_k;
    of.values = static_cast<const float*>(from.k);
    of.codes = to.k;
    of.scales = to.scale_k;
    of.amax = amax + amax_q_.all;
    of.amax_of_head = amax_k_.of_head;
    rows_(stream_, of, true);
    of.blocks = blocks_k + (is_packed ? 1 : 0);
    of.values = static_cast<const float*>(from.v);
    of.codes = to.v;
    of.transposed = to.v_transposed;
    of.scales = to.scale_v;
    of.amax = amax + amax_q_.all + amax_k_.all;
    of.amax_of_head = amax_v_.of_head;
    rows_of_v_(stream_, of, true);
  }

  std::uint64_t bytes() const override {
    i64 rows_q = 0, rows_k = 0;
    for (i64 b = 0; b < problem_.batch; ++b) {
      rows_q += problem_.queries(b);
      rows_k += problem_.keys(b);
    }
    const auto reads = [&](ScaleOf scale_of, i64 rows, i64 heads) {
      const i64 times = scale_of == ScaleOf::block ? 1 : 2;
      return times * rows * heads * problem_.head_dim * i64{sizeof(float)};
    };
    const Quantisation& how = problem_.quantisation;
    const i64 read = reads(how.qk, rows_q, problem_.num_heads_q) +
                     reads(how.qk, rows_k, problem_.num_heads_kv) +
                     reads(how.v, rows_k, problem_.num_heads_kv);
    const i64 codes =
        problem_.elements_q() + 2 * problem_.elements_k() + elements_v_transposed(problem_);
    const i64 scales =
        elements_scale_q(problem_) + elements_scale_k(problem_) + elements_scale_v(problem_);
    return static_cast<std::uint64_t>(read + codes + scales * i64{sizeof(float)});
  }

 private:
  i64 words() const { return amax_q_.all + amax_k_.all + amax_v_.all; }

  Problem problem_;
  CUstream stream_;
  AmaxSize amax_q_, amax_k_, amax_v_;
  TensorQuantiser rows_, rows_of_v_;
  DeviceBuffer amax_;
};

}  // namespace

std::string why_no_quantiser(const Problem& problem, const Device& device) {
  if (!problem.is_e4m3()) return "the problem is not one of e4m3";
  if (device.compute_capability < 90) return "a GPU before compute capability 9.0 has no e4m3";
  if (problem.head_dim % 16 != 0 || problem.head_dim > 256) {
    return "head_dim is not a multiple of 16 up to 256";
  }
  return "";
}

std::unique_ptr<DeviceQuantiser> make_quantiser(const Problem& problem, const Device& device) {
  return std::make_unique<GpuQuantiser>(problem, device);
}

std::vector<KernelUnit> quantiser_units(const Problem& problem) {
  return {unit_of(config_of_qk(problem)), unit_of(config_of_v(problem))};
}

}  // namespace attnlab::cuda
