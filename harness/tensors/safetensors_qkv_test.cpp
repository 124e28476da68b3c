#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "harness/tensors/safetensors.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Holds a tensor and owns its bytes.
struct Tensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};
using TensorTexts = std::map<std::string, Tensor>;

Tensor zeros(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  return {dtype, shape, std::string(tensor_bytes(dtype, shape, ""), '\0')};
}

class SavedFile : public TestFile {
 public:
  explicit SavedFile(const TensorTexts& tensors, const Metadata& metadata = {})
      : TestFile(".safetensors", "") {
    TensorViews views;
    for (const auto& [name, tensor] : tensors) {
      views[name] = {tensor.dtype, tensor.shape, std::as_bytes(std::span(tensor.data))};
    }
    write_safetensors(path(), views, metadata);
  }
};

std::string load_error(const TensorTexts& tensors, Layout layout, const Metadata& metadata = {}) {
  const SavedFile file(tensors, metadata);
  const std::string message = usage_error([&] { load_qkv(file.path(), layout); });
  const std::string name = file.path().string() + ": ";
  EXPECT_TRUE(message.empty() || message.starts_with(name)) << message;
  return message.substr(std::min(name.size(), message.size()));
}

// Makes tensors with batch 2, seqlen 3 x 5, heads 4 and 2, head_dim 8.
TensorTexts bshd(const std::string& dtype = "F32") {
  return {{"q", zeros(dtype, {2, 3, 4, 8})},
          {"k", zeros(dtype, {2, 5, 2, 8})},
          {"v", zeros(dtype, {2, 5, 2, 8})}};
}

TensorTexts packed() {
  return {{"q", zeros("BF16", {7, 4, 8})},
          {"k", zeros("BF16", {9, 2, 8})},
          {"v", zeros("BF16", {9, 2, 8})},
          {"cu_seqlens_q", {"I32", {4}, raw<std::int32_t>({0, 2, 2, 7})}},
          {"cu_seqlens_k", {"I64", {4}, raw<std::int64_t>({0, 3, 9, 9})}}};
}

TEST(LoadQkv, FillsTheProblemOfEveryLayoutAndDtype) {
  for (const auto& [name, dtype] :
       {std::pair("F32", Dtype::f32), {"F16", Dtype::f16}, {"BF16", Dtype::bf16}}) {
    Problem expected = {.dtype = dtype,
                        .batch = 2,
                        .num_heads_q = 4,
                        .num_heads_kv = 2,
                        .seqlen_q = 3,
                        .seqlen_k = 5,
                        .head_dim = 8,
                        .layout = Layout::bshd};
    TensorTexts tensors = bshd(name);
    const SavedFile file(tensors);
    const QkvTensors loaded = load_qkv(file.path(), Layout::bshd);
    EXPECT_EQ(loaded.problem, expected);
    EXPECT_EQ(loaded.q.size(), static_cast<std::size_t>(expected.elements_q() * size_bytes(dtype)));
    EXPECT_EQ(loaded.k.data(), loaded.file.tensors.at("k").bytes.data());
    EXPECT_EQ(loaded.v.data(), loaded.file.tensors.at("v").bytes.data());
    EXPECT_TRUE(loaded.dout.empty());

    expected.layout = Layout::bhsd;
    tensors["q"].shape = {2, 4, 3, 8};
    tensors["k"].shape = tensors["v"].shape = {2, 2, 5, 8};
    tensors["do"] = tensors["q"];
    const SavedFile other(tensors);
    const QkvTensors loaded_other = load_qkv(other.path(), Layout::bhsd);
    EXPECT_EQ(loaded_other.problem, expected);
    EXPECT_EQ(loaded_other.dout.size(), loaded_other.q.size());
  }
}

TEST(LoadQkv, FillsTheLengthsOfPackedEntries) {
  const SavedFile file(packed());
  const Problem expected = {.dtype = Dtype::bf16,
                            .batch = 3,
                            .num_heads_q = 4,
                            .num_heads_kv = 2,
                            .seqlen_q = 5,
                            .seqlen_k = 6,
                            .head_dim = 8,
                            .lengths = {.kind = LengthsKind::packed,
                                        .given = true,
                                        .queries = {2, 0, 5},
                                        .keys = {3, 6, 0}},
                            .layout = Layout::packed};
  EXPECT_EQ(load_qkv(file.path(), Layout::packed).problem, expected);

  TensorTexts shared = packed();
  shared.erase("cu_seqlens_q");
  shared.erase("cu_seqlens_k");
  shared["q"] = zeros("BF16", {9, 4, 8});
  shared["cu_seqlens"] = {"I32", {3}, raw<std::int32_t>({0, 5, 9})};
  const SavedFile both(shared);
  const Lengths lengths = load_qkv(both.path(), Layout::packed).problem.lengths;
  EXPECT_EQ(lengths.queries, (std::vector<std::int64_t>{5, 4}));
  EXPECT_EQ(lengths.keys, lengths.queries);
}

// Returns the error for `tensors` after `change`.
template <class Change>
std::string changed_error(TensorTexts tensors, Layout layout, const Change& change) {
  change(tensors);
  return load_error(tensors, layout);
}

TEST(LoadQkv, RefusesTensorsThatDoNotFit) {
  const auto error = [](const auto& change) { return changed_error(bshd(), Layout::bshd, change); };
  EXPECT_EQ(error([](TensorTexts& t) { t.erase("k"); }), "tensor 'k': is missing");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["q"] = zeros("F64", {2, 3, 4, 8});
            }),
            "tensor 'q': is F64; take F32, F16 or BF16");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["k"] = zeros("F16", {2, 5, 2, 8});
            }),
            "tensor 'k': is F16, but q is F32: convert one");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["q"] = zeros("F32", {3, 4, 8});
            }),
            "tensor 'q': is F32 [3, 4, 8], but layout bshd has [batch, seqlen, heads, head_dim]");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["q"] = zeros("F32", {2, 0, 4, 8});
            }),
            "tensor 'q': is F32 [2, 0, 4, 8]: it is empty");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["k"] = t["v"] = zeros("F32", {2, 5, 2, 16});
            }),
            "tensor 'k': has head_dim 16, but q has 8");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["k"] = t["v"] = zeros("F32", {1, 5, 2, 8});
            }),
            "tensor 'k': has batch 1, but q has 2");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["v"] = zeros("F32", {2, 5, 2, 16});
            }),
            "tensor 'v': is F32 [2, 5, 2, 16], but k is F32 [2, 5, 2, 8]: they must be alike");
  EXPECT_EQ(error([](TensorTexts& t) {
              t["do"] = zeros("F16", {2, 3, 4, 8});
            }),
            "tensor 'do': is F16 [2, 3, 4, 8], but q is F32 [2, 3, 4, 8]: they must be alike");
  EXPECT_EQ(error([](TensorTexts& t) { t["cu_seqlens"] = zeros("I32", {2}); }),
            "tensor 'cu_seqlens': has no meaning with layout bshd: take --layout packed, or remove "
            "it");
  EXPECT_PRED2(contains, error([](TensorTexts& t) { t["Q"] = t["q"]; }),
               "tensor 'Q': would be ignored: remove or rename it");
  EXPECT_EQ(load_error(bshd(), Layout::bhsd),
            "tensor 'k': has 5 heads, which do not divide the 3 of q; is it layout bshd?");
  EXPECT_EQ(load_error(bshd(), Layout::packed),
            "tensor 'q': is F32 [2, 3, 4, 8], but layout packed has [total, heads, head_dim]");
}

TEST(LoadQkv, RefusesListsThatAreNoRunningSum) {
  const auto error = [](const auto& change) {
    return changed_error(packed(), Layout::packed, change);
  };
  const auto queries = [&](const Tensor& list) {
    return error([&](TensorTexts& t) { t["cu_seqlens_q"] = list; });
  };
  const auto sums = [&](const std::vector<std::int64_t>& values) {
    return queries({"I64", {static_cast<std::int64_t>(values.size())}, raw(values)});
  };
  EXPECT_EQ(error([](TensorTexts& t) { t.erase("cu_seqlens_k"); }),
            "tensor 'cu_seqlens_k': is missing: layout packed needs it, or cu_seqlens");
  EXPECT_EQ(error([](TensorTexts& t) { t["cu_seqlens"] = t["cu_seqlens_q"]; }),
            "tensor 'cu_seqlens': stands for both sides: remove it, or cu_seqlens_q and "
            "cu_seqlens_k");
  EXPECT_EQ(queries(zeros("F32", {4})),
            "tensor 'cu_seqlens_q': is F32 [4]; it must be I32 or I64 [batch + 1]");
  EXPECT_EQ(queries(zeros("I32", {2, 2})),
            "tensor 'cu_seqlens_q': is I32 [2, 2]; it must be I32 or I64 [batch + 1]");
  EXPECT_EQ(queries(zeros("I32", {1})),
            "tensor 'cu_seqlens_q': is I32 [1]; it must be I32 or I64 [batch + 1]");
  EXPECT_EQ(sums({1, 2, 2, 7}), "tensor 'cu_seqlens_q': begins with 1; it must begin with 0");
  EXPECT_EQ(sums({0, 3, 2, 7}),
            "tensor 'cu_seqlens_q': falls from 3 to 2 at [2]; it must not fall");
  EXPECT_EQ(sums({0, -1, 2, 7}),
            "tensor 'cu_seqlens_q': falls from 0 to -1 at [1]; it must not fall");
  EXPECT_EQ(sums({0, 2, 2, 6}), "tensor 'cu_seqlens_q': ends with 6, but q has 7 rows");
  EXPECT_EQ(sums({0, 2, 2, std::numeric_limits<std::int64_t>::max()}),
            "tensor 'cu_seqlens_q': ends above 2147483647");
  EXPECT_EQ(sums({0, 2, 7}), "tensor 'cu_seqlens_k': has 3 entries, but cu_seqlens_q has 2");
}

TEST(LoadQkv, RefusesNanAndInfinityAndNamesTheElement) {
  const std::size_t element = ((1 * 5 + 4) * 2 + 0) * 8 + 3;  // [1, 4, 0, 3] of k
  const auto error = [&](const std::string& dtype, std::size_t bytes, std::uint32_t bits) {
    return changed_error(bshd(dtype), Layout::bshd, [&](TensorTexts& t) {
      std::memcpy(t["k"].data.data() + element * bytes, &bits, bytes);
    });
  };
  const std::string expected = "tensor 'k': holds NaN or infinity at [1, 4, 0, 3]: replace it";
  EXPECT_EQ(error("F32", 4, 0x7FC00000), expected);
  EXPECT_EQ(error("F32", 4, 0xFF800000), expected);
  EXPECT_EQ(error("F32", 4, 0x7F800001), expected);
  EXPECT_EQ(error("F32", 4, 0x7F7FFFFF), "");
  EXPECT_EQ(error("F16", 2, 0xFC00), expected);
  EXPECT_EQ(error("F16", 2, 0x7E00), expected);
  EXPECT_EQ(error("F16", 2, 0x7BFF), "");
  EXPECT_EQ(error("BF16", 2, 0x7F80), expected);
  EXPECT_EQ(error("BF16", 2, 0xFFC0), expected);
  EXPECT_EQ(error("BF16", 2, 0x7F7F), "");
  TensorTexts tensors = bshd("F16");
  tensors["do"] = tensors["q"];
  tensors["do"].data.back() = '\x7C';
  EXPECT_EQ(load_error(tensors, Layout::bshd),
            "tensor 'do': holds NaN or infinity at [1, 2, 3, 7]: replace it");
}

TEST(SavedTensors, CanBeReadAgainInTheirOwnLayoutOnly) {
  const Problem problem = {.pass = Pass::fwdbwd,
                           .dtype = Dtype::f16,
                           .batch = 2,
                           .num_heads_q = 4,
                           .num_heads_kv = 2,
                           .seqlen_q = 4,
                           .seqlen_k = 4,
                           .head_dim = 8,
                           .mask = parse_mask("causal+blocks:local:1:2x2"),
                           .dropout = 0.1,
                           .seed = 9,
                           .layout = Layout::bhsd};
  const std::string like_q(2 * 4 * 4 * 8 * 2, '\0'), like_k(2 * 2 * 4 * 8 * 2, '\0');
  std::vector<float> lse(2 * 4 * 4);
  std::vector<std::uint8_t> blocks = make_block_pattern(problem);
  const Tensors tensors = {.q = like_q.data(),
                           .k = like_k.data(),
                           .v = like_k.data(),
                           .lse = lse.data(),
                           .dout = like_q.data(),
                           .block_pattern = blocks.data()};
  const TensorViews views = view_tensors(problem, tensors);
  EXPECT_EQ(views.size(), 6u);
  EXPECT_EQ(views.at("lse").shape, (std::vector<std::int64_t>{2, 4, 4}));
  EXPECT_EQ(views.at("block_pattern").shape, (std::vector<std::int64_t>{2, 2}));

  const Metadata metadata = to_metadata({problem, "v2", "block_m=64"});
  EXPECT_EQ(metadata, (Metadata{{"schema", "attnlab.tensors/1"},
                                {"pass", "fwdbwd"},
                                {"layout", "bhsd"},
                                {"mask", "causal+blocks:local:1:2x2"},
                                {"lengths", ""},
                                {"softmax_scale", "0.35355339059327373"},
                                {"dropout", "0.1"},
                                {"seed", "9"},
                                {"kernel", "v2"},
                                {"config", "block_m=64"}}));
  const TestFile file(".safetensors", "");
  write_safetensors(file.path(), views, metadata);
  const QkvTensors loaded = load_qkv(file.path(), Layout::bhsd);
  EXPECT_EQ(loaded.problem.num_heads_q, 4);
  EXPECT_EQ(loaded.dout.size(), like_q.size());
  EXPECT_PRED2(contains, usage_error([&] { load_qkv(file.path(), Layout::bshd); }),
               "was saved with layout 'bhsd', not bshd");
}

TEST(SavedTensors, PackedOnesHaveTheTotalsOfTheirEntries) {
  const Problem problem = {
      .batch = 2,
      .seqlen_q = 5,
      .seqlen_k = 6,
      .head_dim = 8,
      .lengths = {.kind = LengthsKind::packed, .given = true, .queries = {2, 5}, .keys = {6, 3}},
      .layout = Layout::packed};
  const std::vector<float> q(7 * 8), k(9 * 8);
  const std::vector<std::int32_t> sums_q = {0, 2, 7}, sums_k = {0, 6, 9};
  const Tensors tensors = {.q = q.data(),
                           .k = k.data(),
                           .v = k.data(),
                           .cu_seqlens_q = sums_q.data(),
                           .cu_seqlens_k = sums_k.data()};
  const TestFile file(".safetensors", "");
  write_safetensors(file.path(), view_tensors(problem, tensors), to_metadata({problem, "v1", ""}));
  EXPECT_EQ(load_qkv(file.path(), Layout::packed).problem, problem);
}

}  // namespace
}  // namespace attnlab
