// Reads the user's own tensors of a run, and views those that a run saves.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/suggest.h"
#include "harness/tensors/safetensors.h"

namespace attnlab {
namespace {

constexpr const char* kSchema = "attnlab.tensors/1";

// The user's file may have these names, and those that a run adds to them.
const std::vector<std::string> kInputNames = {
    "q", "k", "v", "do", "cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"};
const std::vector<std::string> kSavedNames = {"o",  "lse",          "dq",           "dk",
                                              "dv", "dropout_keep", "block_pattern"};

std::string describe(const TensorView& tensor) {
  return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

std::optional<Dtype> dtype_from(const std::string& name) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    if (name == safetensors_dtype(dtype)) return dtype;
  }
  return std::nullopt;
}

template <class T>
T element(const TensorView& tensor, std::size_t index) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Finds the first element whose exponent bits, `infinity`, are all set; else returns the count.
template <class Bits>
std::size_t first_not_finite(const TensorView& tensor, Bits infinity) {
  const std::size_t elements = tensor.bytes.size() / sizeof(Bits);
  for (std::size_t i = 0; i < elements; ++i) {
    if ((element<Bits>(tensor, i) & infinity) == infinity) return i;
  }
  return elements;
}

std::size_t first_not_finite(const TensorView& tensor, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::e4m3: break;
    case Dtype::f16: return first_not_finite<std::uint16_t>(tensor, 0x7C00);
    case Dtype::bf16: return first_not_finite<std::uint16_t>(tensor, 0x7F80);
  }
  return first_not_finite<std::uint32_t>(tensor, 0x7F800000);
}

// Returns the index in every dimension of the element at a row-major position: "[0, 3, 1, 17]".
std::string coordinate(const std::vector<std::int64_t>& shape, std::size_t position) {
  std::vector<std::size_t> indices(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    indices[i] = position % static_cast<std::size_t>(shape[i]);
    position /= static_cast<std::size_t>(shape[i]);
  }
  return fmt::format("[{}]", fmt::join(indices, ", "));
}

// Reads the problem out of a file's tensors, and refuses what is no problem.
class QkvReader {
 public:
  QkvReader(const SafetensorsFile& file, Layout layout) : file_(file) { problem_.layout = layout; }

  Problem read() {
    refuse_unknown_names();
    check_layout();
    read_shapes();
    if (problem_.layout == Layout::packed) read_lengths();
    if (const std::string why = invalid(problem_); !why.empty()) fail("", why);
    for (const char* name : {"q", "k", "v", "do"}) {
      if (const TensorView* tensor = find(name)) check_values(name, *tensor);
    }
    return problem_;
  }

 private:
  // Refuses `tensor`; "" stands for the file as a whole.
  [[noreturn]] void fail(const std::string& tensor, const std::string& why) const {
    const std::string place = tensor.empty() ? "" : fmt::format(": tensor '{}'", tensor);
    throw UsageError(fmt::format("{}{}: {}", file_.path.string(), place, why));
  }

  const TensorView* find(const std::string& name) const {
    const auto place = file_.tensors.find(name);
    return place == file_.tensors.end() ? nullptr : &place->second;
  }

  const TensorView& need(const std::string& name) const {
    const TensorView* tensor = find(name);
    if (tensor == nullptr) fail(name, "is missing");
    return *tensor;
  }

  void refuse_unknown_names() const {
    for (const auto& [name, tensor] : file_.tensors) {
      if (std::ranges::count(kInputNames, name) + std::ranges::count(kSavedNames, name) > 0) {
        continue;
      }
      const std::string hint = name.size() <= 20 ? suggestion(name, kInputNames) : "";
      throw UsageError(fmt::format("{}: tensor {}: would be ignored: remove or rename it{}",
                                   file_.path.string(), quoted(name), hint));
    }
  }

  // Checks the layout: a file that a run saved knows its own.
  void check_layout() const {
    const Metadata& metadata = file_.metadata;
    const auto schema = metadata.find("schema");
    const auto layout = metadata.find("layout");
    if (schema == metadata.end() || schema->second != kSchema || layout == metadata.end()) return;
    if (layout->second != to_string(problem_.layout)) {
      fail("", fmt::format("was saved with layout {}, not {}: name its own with --layout",
                           quoted(layout->second), to_string(problem_.layout)));
    }
  }

  void read_shapes() {
    const TensorView& q = need("q");
    const TensorView& k = need("k");
    const TensorView& v = need("v");
    const bool packed = problem_.layout == Layout::packed;
    const char* form = packed                            ? "[total, heads, head_dim]"
                       : problem_.layout == Layout::bshd ? "[batch, seqlen, heads, head_dim]"
                                                         : "[batch, heads, seqlen, head_dim]";
    for (const auto& [name, tensor] : {std::pair("q", &q), {"k", &k}, {"v", &v}}) {
      const std::optional<Dtype> dtype = dtype_from(tensor->dtype);
      if (!dtype) fail(name, fmt::format("is {}; take F32, F16 or BF16", tensor->dtype));
      if (tensor->dtype != q.dtype) {
        fail(name, fmt::format("is {}, but q is {}: convert one", tensor->dtype, q.dtype));
      }
      if (tensor->shape.size() != (packed ? 3 : 4)) {
        fail(name, fmt::format("is {}, but layout {} has {}", describe(*tensor),
                               to_string(problem_.layout), form));
      }
      if (tensor->bytes.empty()) fail(name, fmt::format("is {}: it is empty", describe(*tensor)));
      problem_.dtype = *dtype;
    }
    need_same("v", v, "k", k);
    if (const TensorView* dout = find("do")) need_same("do", *dout, "q", q);
    read_sizes(q.shape, k.shape);
  }

  void read_sizes(const std::vector<std::int64_t>& q, const std::vector<std::int64_t>& k) {
    const bool packed = problem_.layout == Layout::packed;
    const std::size_t row = problem_.layout == Layout::bhsd ? 2 : packed ? 0 : 1;
    const std::size_t head = problem_.layout == Layout::bhsd ? 1 : packed ? 1 : 2;
    if (q.back() != k.back()) {
      fail("k", fmt::format("has head_dim {}, but q has {}", k.back(), q.back()));
    }
    if (!packed && q.front() != k.front()) {
      fail("k", fmt::format("has batch {}, but q has {}", k.front(), q.front()));
    }
    problem_.batch = packed ? 1 : q.front();
    problem_.seqlen_q = q[row];
    problem_.seqlen_k = k[row];
    problem_.num_heads_q = q[head];
    problem_.num_heads_kv = k[head];
    problem_.head_dim = q.back();
    for (const char* name : {"cu_seqlens", "cu_seqlens_q", "cu_seqlens_k"}) {
      if (packed || find(name) == nullptr) continue;
      fail(name, fmt::format("has no meaning with layout {}: take --layout packed, or remove it",
                             to_string(problem_.layout)));
    }
    if (problem_.num_heads_q % problem_.num_heads_kv != 0) {
      fail("k", fmt::format("has {} heads, which do not divide the {} of q; is it layout {}?",
                            problem_.num_heads_kv, problem_.num_heads_q,
                            problem_.layout == Layout::bshd ? "bhsd" : "bshd"));
    }
  }

  void need_same(const char* name, const TensorView& tensor, const char* other_name,
                 const TensorView& other) const {
    if (tensor.dtype == other.dtype && tensor.shape == other.shape) return;
    fail(name, fmt::format("is {}, but {} is {}: they must be alike", describe(tensor), other_name,
                           describe(other)));
  }

  // Reads lengths: seqlen_q and seqlen_k come as totals of rows and become the longest entries.
  void read_lengths() {
    const bool shared = find("cu_seqlens") != nullptr;
    const char* name_q = shared ? "cu_seqlens" : "cu_seqlens_q";
    const char* name_k = shared ? "cu_seqlens" : "cu_seqlens_k";
    if (shared && (find("cu_seqlens_q") != nullptr || find("cu_seqlens_k") != nullptr)) {
      fail("cu_seqlens", "stands for both sides: remove it, or cu_seqlens_q and cu_seqlens_k");
    }
    Lengths& lengths = problem_.lengths;
    lengths.kind = LengthsKind::packed;
    lengths.given = true;
    lengths.queries = read_list(name_q, problem_.seqlen_q, "q");
    lengths.keys = read_list(name_k, problem_.seqlen_k, "k");
    if (lengths.queries.size() != lengths.keys.size()) {
      fail(name_k, fmt::format("has {} entries, but {} has {}", lengths.keys.size(), name_q,
                               lengths.queries.size()));
    }
    problem_.batch = static_cast<std::int64_t>(lengths.queries.size());
    problem_.seqlen_q = *std::ranges::max_element(lengths.queries);
    problem_.seqlen_k = *std::ranges::max_element(lengths.keys);
  }

  // Computes the lengths of the entries from their running sum.
  std::vector<std::int64_t> read_list(const char* name, std::int64_t total,
                                      const char* rows_of) const {
    const TensorView* list = find(name);
    if (list == nullptr) fail(name, "is missing: layout packed needs it, or cu_seqlens");
    if ((list->dtype != "I32" && list->dtype != "I64") || list->shape.size() != 1 ||
        list->shape[0] < 2) {
      fail(name, fmt::format("is {}; it must be I32 or I64 [batch + 1]", describe(*list)));
    }
    const auto value = [&](std::size_t i) {
      return list->dtype == "I32" ? element<std::int32_t>(*list, i)
                                  : element<std::int64_t>(*list, i);
    };
    const auto last = static_cast<std::size_t>(list->shape[0]) - 1;
    if (value(0) != 0) fail(name, fmt::format("begins with {}; it must begin with 0", value(0)));
    std::vector<std::int64_t> lengths;
    for (std::size_t i = 0; i < last; ++i) {
      if (value(i + 1) < value(i)) {
        fail(name, fmt::format("falls from {} to {} at [{}]; it must not fall", value(i),
                               value(i + 1), i + 1));
      }
      lengths.push_back(value(i + 1) - value(i));
    }
    // Kernels get these sums as 32-bit numbers.
    constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();
    if (value(last) > kMostRows) fail(name, fmt::format("ends above {}", kMostRows));
    if (value(last) != total) {
      fail(name, fmt::format("ends with {}, but {} has {} rows", value(last), rows_of, total));
    }
    return lengths;
  }

  void check_values(const char* name, const TensorView& tensor) const {
    const std::size_t position = first_not_finite(tensor, problem_.dtype);
    if (position * static_cast<std::size_t>(size_bytes(problem_.dtype)) == tensor.bytes.size()) {
      return;
    }
    fail(name, fmt::format("holds NaN or infinity at {}: replace it",
                           coordinate(tensor.shape, position)));
  }

  const SafetensorsFile& file_;
  Problem problem_;
};

// Returns the shape of a tensor like q or k, in the problem's layout.
std::vector<std::int64_t> shape_of(const Problem& problem, std::int64_t rows, std::int64_t heads,
                                   std::int64_t elements) {
  switch (problem.layout) {
    case Layout::bhsd: return {problem.batch, heads, rows, problem.head_dim};
    case Layout::packed: return {elements / (heads * problem.head_dim), heads, problem.head_dim};
    case Layout::bshd: break;
  }
  return {problem.batch, rows, heads, problem.head_dim};
}

}  // namespace

const char* safetensors_dtype(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "F32";
    case Dtype::f16: return "F16";
    case Dtype::bf16: return "BF16";
    case Dtype::e4m3: return "F8_E4M3";
  }
  return "?";
}

QkvTensors load_qkv(const std::filesystem::path& path, Layout layout) {
  QkvTensors result{.file = read_safetensors(path, FileHash::fnv1a)};
  result.problem = QkvReader(result.file, layout).read();
  TensorViews& tensors = result.file.tensors;
  result.q = tensors.at("q").bytes;
  result.k = tensors.at("k").bytes;
  result.v = tensors.at("v").bytes;
  if (tensors.contains("do")) result.dout = tensors.at("do").bytes;
  return result;
}

TensorViews view_tensors(const Problem& problem, const Tensors& tensors) {
  TensorViews views;
  const auto add = [&](const char* name, const char* dtype, const std::vector<std::int64_t>& shape,
                       const void* data) {
    if (data == nullptr) return;
    views[name] = {
        .dtype = dtype,
        .shape = shape,
        .bytes = {static_cast<const std::byte*>(data), tensor_bytes(dtype, shape, name)}};
  };
  const char* const dtype = safetensors_dtype(problem.input_dtype());
  const char* const output = safetensors_dtype(problem.output_dtype());
  const auto like_q =
      shape_of(problem, problem.seqlen_q, problem.num_heads_q, problem.elements_q());
  const auto like_k =
      shape_of(problem, problem.seqlen_k, problem.num_heads_kv, problem.elements_k());
  add("q", dtype, like_q, tensors.q);
  add("k", dtype, like_k, tensors.k);
  add("v", dtype, like_k, tensors.v);
  add("do", dtype, like_q, tensors.dout);
  add("o", output, like_q, tensors.o);
  add("dq", dtype, like_q, tensors.dq);
  add("dk", dtype, like_k, tensors.dk);
  add("dv", dtype, like_k, tensors.dv);
  add("lse", "F32", {problem.batch, problem.num_heads_q, problem.seqlen_q}, tensors.lse);
  if (problem.layout == Layout::packed) {
    add("cu_seqlens_q", "I32", {problem.batch + 1}, tensors.cu_seqlens_q);
    add("cu_seqlens_k", "I32", {problem.batch + 1}, tensors.cu_seqlens_k);
  }
  if (const auto& blocks = problem.mask.blocks) {
    add("block_pattern", "U8",
        {ceil_div<std::int64_t>(problem.seqlen_q, blocks->block_q),
         ceil_div<std::int64_t>(problem.seqlen_k, blocks->block_k)},
        tensors.block_pattern);
  }
  return views;
}

Metadata to_metadata(const SavedMetadata& saved) {
  const Problem& problem = saved.problem;
  return {{"schema", kSchema},
          {"pass", to_string(problem.pass)},
          {"layout", to_string(problem.layout)},
          {"mask", to_string(problem.mask)},
          {"lengths", to_string(problem.lengths)},
          {"softmax_scale", fmt::format("{}", problem.scale())},
          {"dropout", fmt::format("{}", problem.dropout)},
          {"seed", fmt::format("{}", problem.seed)},
          {"kernel", saved.kernel},
          {"config", saved.config}};
}

}  // namespace attnlab
