// Implements naive on a GPU: the passes of schedule.h in order, products by cuBLAS, all else by the
// kernels of forward.cuh and backward.cuh. Against the CPU side two things differ: rows of the
// matrices are padded to 16 bytes, and in 16 bits there is no lse, because the library's product
// leaves only rounded scores. A problem in e4m3 is one in f32 between a kernel that decodes and one
// that rounds O: cuBLAS multiplies no codes with scales of rows.
#include "kernels/naive/cuda.h"

#include <memory>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/launch.h"
#include "kernels/naive/cpu.h"
#include "kernels/naive/cuda_products.h"
#include "kernels/naive/cuda_units.h"
#include "kernels/shared/batch_addresses.h"
#include "kernels/shared/quantise.h"

namespace attnlab::naive {
namespace {

constexpr ConfigAxis kAxes[] = {
    {.name = "tf32",
     .summary = "1: products of f32 round their factors to TF32, for tensor cores",
     .default_value = 0,
     .minimum = 0,
     .maximum = 1,
     .role = AxisRole::tf32_products}};

// Returns the problem that passes and products work on.
Problem decoded(Problem problem) {
  if (!problem.is_e4m3()) return problem;
  problem.dtype = Dtype::f32;
  problem.quantisation = {};
  return problem;
}

u64 matrix_bytes(const Problem& problem) {
  return static_cast<u64>(padded_elements(make_shape(problem)) *
                          size_bytes(decoded(problem).dtype));
}

// Values holds the bytes of what a problem in e4m3 has in fp32; zeros of all others.
struct Values {
  u64 q = 0;  // and O
  u64 k = 0;  // and V
};

Values values_of(const Problem& problem) {
  if (!problem.is_e4m3()) return {};
  const auto bytes = [](i64 elements) {
    return round_up<u64>(static_cast<u64>(elements) * sizeof(float), 256);
  };
  return {.q = bytes(problem.elements_q()), .k = bytes(problem.elements_k())};
}

// dK and dV are summed in fp32 over query heads whose rows do not follow one another.
bool needs_sums(const Problem& problem) {
  return problem.runs_backward() && problem.dtype != Dtype::f32 && sums_by_calls(problem);
}

// Parts lists the parts of the workspace in order, with the bytes of each, multiples of 256.
struct Parts {
  u64 blas = 0;
  u64 first = 0;      // S, then Pd; in backward dP, then dS
  u64 second = 0;     // P that is not saved; in backward Pd
  u64 sums = 0;       // dK, then dV in fp32
  u64 addresses = 0;  // of the matrices of one product
  Values values;      // Q, O, K, V
  u64 total() const { return blas + first + second + sums + addresses + 2 * (values.q + values.k); }
};

Parts parts_of(const Problem& problem, const Device& device) {
  const u64 matrix = round_up<u64>(matrix_bytes(problem), 256);
  const u64 sums = static_cast<u64>(problem.elements_k()) * sizeof(float);
  const u64 addresses = static_cast<u64>(3 * problem.batch * problem.num_heads_q) * sizeof(u64);
  return {.blas = cuda::Blas::workspace_bytes(device),
          .first = matrix,
          .second = problem.pass == Pass::fwd || problem.drops() ? matrix : 0,
          .sums = needs_sums(problem) ? round_up<u64>(sums, 256) : 0,
          .addresses = round_up<u64>(addresses, 256),
          .values = values_of(problem)};
}

std::string unsupported(const Problem& problem, const Config& config, const Device& device) {
  if (std::string reason = invalid(config, kCuda); !reason.empty()) return reason;
  if (config.get("tf32") != 0 && problem.dtype != Dtype::f32) {
    return "tf32 = 1 is about products of f32: set it to 0";
  }
  if (problem.is_e4m3() && problem.runs_backward()) {
    return "there is no backward in e4m3: three bits of mantissa do not carry gradients";
  }
  if (problem.is_e4m3() && problem.drops()) return "there is no dropout in e4m3";
  return cuda::unsupported(problem, device);
}

std::uint64_t workspace_bytes(const Problem& problem, const Config& /*config*/,
                              const Device& device) {
  return parts_of(problem, device).total();
}

// Counts P, from which the backward starts.
std::uint64_t saved_bytes(const Problem& problem, const Config& /*config*/) {
  return problem.pass == Pass::fwd ? 0 : matrix_bytes(problem);
}

bool writes_lse(const Problem& problem) { return decoded(problem).dtype == Dtype::f32; }

std::vector<KernelUnit> units(const Problem& problem, const Config& /*config*/,
                              const Device& /*device*/) {
  std::vector<KernelUnit> needed;
  if (problem.is_e4m3()) needed.push_back(e4m3_unit());
  if (problem.runs_forward()) needed.push_back(forward_unit(decoded(problem).dtype));
  if (problem.runs_backward()) needed.push_back(backward_unit(problem.dtype));
  return needed;
}

// Prepared holds everything that a launch needs but the tensors.
class Prepared : public PreparedKernel {
 public:
  Prepared(const Problem& problem, const Config& config, const Device& device)
      : problem_(decoded(problem)),
        shape_(make_shape(problem)),
        drops_(problem.drops()),
        parts_(parts_of(problem, device)),
        precision_(config.get("tf32") != 0 ? cuda::GemmPrecision::tf32 : cuda::GemmPrecision::full),
        blas_(cuda::Blas::of(device)) {
    if (problem.is_e4m3()) prepare_e4m3(problem, device);
    if (problem.runs_forward()) prepare_forward(device);
    if (problem.runs_backward()) prepare_backward(device);
  }

  void launch(const Tensors& tensors, CUstream stream) {
    blas_.use(stream, tensors.workspace, parts_.blas);
    if (e4m3_module_ != nullptr) return forward_e4m3(tensors, stream);
    if (problem_.runs_forward()) forward(tensors, stream);
    if (problem_.runs_backward()) backward(tensors, stream);
  }

 private:
  using ChangeRows = cuda::Kernel<Params, const void*, void*>;

  void prepare_e4m3(const Problem& problem, const Device& device) {
    e4m3_module_ = cuda::load(e4m3_unit(), device);
    decode_codes_ = {*e4m3_module_, pass_entry("decode_codes")};
    round_sums_ = {*e4m3_module_, pass_entry("round_sums")};
    v_has_channels_ = problem.quantisation.v == ScaleOf::channel;
  }

  void prepare_forward(const Device& device) {
    forward_module_ = cuda::load(forward_unit(problem_.dtype), device);
    mask_rows_ = {*forward_module_, pass_entry("mask_rows")};
    softmax_rows_ = {*forward_module_, row_class_entry("softmax_rows", row_class())};
    dropout_rows_ = {*forward_module_, pass_entry("dropout_rows")};
    batch_addresses_ = {*forward_module_, pass_entry("batch_addresses")};
    s_ = score_calls(problem_, shape_.softmax_scale);
    o_ = row_calls(problem_, 1.0f);
  }

  void prepare_backward(const Device& device) {
    backward_module_ = cuda::load(backward_unit(problem_.dtype), device);
    dropout_rows_ = {*backward_module_, pass_entry("dropout_rows")};
    softmax_backward_rows_ = {*backward_module_,
                              row_class_entry("softmax_backward_rows", row_class())};
    round_sums_ = {*backward_module_, pass_entry("round_sums")};
    batch_addresses_ = {*backward_module_, pass_entry("batch_addresses")};
    dp_ = score_calls(problem_, 1.0f);
    dq_ = row_calls(problem_, shape_.softmax_scale);
    dk_ = key_calls(problem_, shape_.softmax_scale);
    dv_ = key_calls(problem_, 1.0f);
  }

  RowClass row_class() const { return naive::row_class(shape_.seqlen_k); }
  u64 tiles() const { return row_blocks(shape_, kTileRows, kTileColumns); }
  u64 rows() const { return row_blocks(shape_, row_class().rows(), shape_.seqlen_k); }

  void* first(const Tensors& tensors) const { return cuda::behind(tensors.workspace, parts_.blas); }
  void* second(const Tensors& tensors) const { return cuda::behind(first(tensors), parts_.first); }
  void* sums(const Tensors& tensors) const { return cuda::behind(second(tensors), parts_.second); }
  void* addresses(const Tensors& tensors) const { return cuda::behind(sums(tensors), parts_.sums); }
  void* values(const Tensors& tensors) const {
    return cuda::behind(addresses(tensors), parts_.addresses);
  }
  void* p(const Tensors& tensors) const {
    return tensors.saved != nullptr ? tensors.saved : second(tensors);
  }

  // Runs the calls of a product whose result is of type `dtype`.
  void multiply(const ProductCalls& calls, const void* left, const void* right, void* result,
                Dtype dtype, const Tensors& tensors, CUstream stream) {
    for (const Range& zeros : calls.zeros) {
      const u64 begin = static_cast<u64>(zeros.begin * size_bytes(dtype));
      cuda::clear_bytes(stream, cuda::behind(result, begin),
                        static_cast<u64>(zeros.size() * size_bytes(dtype)),
                        "clearing rows that see nothing");
    }
    const cuda::GemmTypes types = {
        .factors = problem_.dtype, .result = dtype, .precision = precision_};
    for (const cuda::Gemm& gemm : calls.gemms) {
      if (gemm.groups == 1) {
        blas_.run(gemm, types, left, right, result);
        continue;
      }
      const BatchAddresses batch = {.left = addresses_of(gemm.left, left, types.factors),
                                    .right = addresses_of(gemm.right, right, types.factors),
                                    .result = addresses_of(gemm.result, result, types.result),
                                    .batch = gemm.batch,
                                    .groups = gemm.groups};
      void* const all = addresses(tensors);
      batch_addresses_(stream, static_cast<u64>(ceil_div<i64>(batch.count(), kBlockThreads)), batch,
                       all);
      blas_.run(gemm, types, all);
    }
  }

  static OperandAddresses addresses_of(const cuda::GemmMatrix& matrix, const void* data,
                                       Dtype dtype) {
    const i64 bytes = size_bytes(dtype);
    return {.first = reinterpret_cast<u64>(data) + static_cast<u64>(matrix.offset * bytes),
            .batch_stride = matrix.batch_stride * bytes,
            .group_stride = matrix.group_stride * bytes};
  }

  void multiply(const ProductCalls& calls, const void* left, const void* right, void* result,
                const Tensors& tensors, CUstream stream) {
    multiply(calls, left, right, result, problem_.dtype, tensors, stream);
  }

  // Runs the calls of dK or dV, by way of fp32 where heads are summed call by call.
  void multiply_keys(const ProductCalls& calls, const void* left, const void* right, void* result,
                     const Tensors& tensors, CUstream stream) {
    if (!needs_sums(problem_)) return multiply(calls, left, right, result, tensors, stream);
    void* const in_f32 = sums(tensors);
    multiply(calls, left, right, in_f32, Dtype::f32, tensors, stream);
    const i64 elements = problem_.elements_k();
    round_sums_(stream, static_cast<u64>(ceil_div<i64>(elements, kBlockThreads)), in_f32, result,
                elements);
  }

  // Runs the forward on values in fp32, which lie in the workspace as the codes do in their
  // tensors.
  void forward_e4m3(const Tensors& tensors, CUstream stream) {
    const Params params = cuda::make_params(problem_, tensors);
    const E4m3Inputs& e4m3 = tensors.e4m3;
    const auto decode = [&](const Codes& codes) {
      const i64 heads = codes.is_query ? shape_.num_heads_q : shape_.num_heads_kv;
      const i64 rows = codes.is_query ? shape_.seqlen_q : shape_.seqlen_k;
      decode_codes_(stream, static_cast<u64>(shape_.batch * heads * ceil_div(rows, kScaleRows)),
                    params, codes);
      return codes.values;
    };
    float* const q = static_cast<float*>(values(tensors));
    float* const o = static_cast<float*>(cuda::behind(q, parts_.values.q));
    float* const k = static_cast<float*>(cuda::behind(o, parts_.values.q));
    float* const v = static_cast<float*>(cuda::behind(k, parts_.values.k));
    Tensors in_f32 = tensors;
    in_f32.q = decode({.codes = e4m3.q, .scales = e4m3.scale_q, .values = q, .is_query = true});
    in_f32.k = decode({.codes = e4m3.k, .scales = e4m3.scale_k, .values = k});
    in_f32.v = decode(
        {.codes = e4m3.v, .scales = e4m3.scale_v, .values = v, .has_channels = v_has_channels_});
    in_f32.o = o;
    forward(in_f32, stream);
    const i64 elements = problem_.elements_q();
    round_sums_(stream, static_cast<u64>(ceil_div<i64>(elements, kBlockThreads)), o, tensors.o,
                elements);
  }

  void forward(const Tensors& tensors, CUstream stream) {
    const Params params = cuda::make_params(problem_, tensors);
    void* const s = first(tensors);
    void* const dropped_p = drops_ ? first(tensors) : p(tensors);
    multiply(s_, tensors.q, tensors.k, s, tensors, stream);
    if (!problem_.mask.is_none()) mask_rows_(stream, tiles(), params, s);
    softmax_rows_(stream, rows(), params, s, p(tensors),
                  writes_lse(problem_) ? tensors.lse : nullptr);
    if (drops_) dropout_rows_(stream, tiles(), params, p(tensors), dropped_p);
    multiply(o_, dropped_p, tensors.v, tensors.o, tensors, stream);
  }

  void backward(const Tensors& tensors, CUstream stream) {
    const Params params = cuda::make_params(problem_, tensors);
    void* const dp = first(tensors);
    void* const ds = first(tensors);
    void* const dropped_p = drops_ ? second(tensors) : p(tensors);
    multiply(dp_, tensors.dout, tensors.v, dp, tensors, stream);
    if (drops_) dropout_rows_(stream, tiles(), params, dp, dp);
    softmax_backward_rows_(stream, rows(), params, p(tensors), ds);
    if (drops_) dropout_rows_(stream, tiles(), params, p(tensors), dropped_p);
    multiply(dq_, ds, tensors.k, tensors.dq, tensors, stream);
    multiply_keys(dk_, ds, tensors.q, tensors.dk, tensors, stream);
    multiply_keys(dv_, dropped_p, tensors.dout, tensors.dv, tensors, stream);
  }

  Problem problem_;  // decoded
  Shape shape_;
  bool drops_;
  bool v_has_channels_ = false;
  Parts parts_;
  cuda::GemmPrecision precision_;
  cuda::Blas& blas_;
  ProductCalls s_, o_, dp_, dq_, dk_, dv_;
  std::shared_ptr<const cuda::Module> e4m3_module_, forward_module_, backward_module_;
  cuda::Kernel<Params, Codes> decode_codes_;
  cuda::Kernel<Params, void*> mask_rows_;
  cuda::Kernel<Params, const void*, void*, float*> softmax_rows_;
  ChangeRows dropout_rows_, softmax_backward_rows_;
  cuda::Kernel<const void*, void*, i64> round_sums_;
  cuda::Kernel<BatchAddresses, void*> batch_addresses_;
};

// Counts the values of e4m3, too: written from codes and read, O's read and rounded.
Traffic traffic_of_e4m3(const Problem& problem, Traffic in_f32) {
  const auto decode = [&](Operand operand, i64 elements) {
    in_f32[operand].read_bytes += elements * size_bytes(Dtype::e4m3);
    in_f32[operand].write_bytes += elements * size_bytes(Dtype::f32);
  };
  decode(Operand::q, problem.elements_q());
  decode(Operand::k, problem.elements_k());
  decode(Operand::v, problem.elements_k());
  in_f32[Operand::o].read_bytes += problem.elements_q() * size_bytes(Dtype::f32);
  in_f32[Operand::o].write_bytes += problem.elements_q() * size_bytes(problem.output_dtype());
  return in_f32;
}

// Counts as on the CPU, but that rows which no block holds in registers are read twice: S for its
// softmax, P and dP for that of the backward.
Traffic traffic(const Problem& problem, const Config& config) {
  if (problem.is_e4m3()) return traffic_of_e4m3(problem, traffic(decoded(problem), config));
  Traffic counted = count_passes(problem, WritesLse::in_f32);
  if (row_class(problem.seqlen_k).chunks > 0) return counted;
  std::int64_t elements = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    const bool is_packed = problem.layout == Layout::packed;
    elements += problem.queries(b) * (is_packed ? problem.keys(b) : problem.seqlen_k);
  }
  const std::int64_t matrix_bytes = elements * problem.num_heads_q * size_bytes(problem.dtype);
  if (problem.runs_forward()) counted[Operand::s].read_bytes += matrix_bytes;
  if (problem.runs_backward()) {
    counted[Operand::p].read_bytes += matrix_bytes;
    counted[Operand::dp].read_bytes += matrix_bytes;
  }
  return counted;
}

}  // namespace

constexpr Implementation kCuda = {
    .api_version = kApiVersion,
    .name = "naive",
    .backend = Backend::cuda,
    .summary = "materialized attention: cuBLAS for QK^T and PV, one kernel a pass between them",
    .axes = kAxes,
    .num_axes = 1,
    .unsupported = unsupported,
    .workspace_bytes = workspace_bytes,
    .saved_bytes = saved_bytes,
    .units = units,
    .writes_lse = writes_lse,
    .prepare = cuda::prepare<Prepared>,
    .launch = cuda::launch<Prepared>,
    .release = cuda::release<Prepared>,
    .traffic = traffic,
    .library = "cuBLAS",
    .has_e4m3 = true,  // S and P in f32, products in fp32
};

}  // namespace attnlab::naive
