// Compares v3's forward on e4m3 with the same computation in double: codes times scales, P rounded
// to e4m3 relative to the reference of the tiles so far, from the last to the first, as the kernel
// rounds it. What is left is what fp32 and 13 bits of the accumulator's sums lose.
#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "harness/plan/sweep.h"
#include "harness/tensors/arena.h"
#include "kernels/api/test_quantised.h"
#include "kernels/shared/convert.h"
#include "kernels/shared/mask.h"
#include "kernels/shared/quantise.h"
#include "kernels/v3/cuda_tiles.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

constexpr double kTolerance = 0.008;  // of O, relative, in the norm of all elements

// Returns by how much the mean of O may be off, relative to it, where V's mean is not zero: tensor
// cores cut sums off towards zero, so what 13 bits of a sum over all keys lose shows there alone.
constexpr double bias_bound(i64 keys) { return keys <= 4096 ? 1.5e-3 : 3e-3; }

struct E4m3Case {
  const char* name;
  Problem problem;
  Config config;
  InputKind kind = InputKind::normal;  // of V
  bool has_negative_scores = false;    // no others: Q is not negative, K not positive
  bool has_tiles_of_long = false;      // those that as many rows as keys get by default
};

void PrintTo(const E4m3Case& what, std::ostream* stream) { *stream << what.name; }

Problem problem_of(i64 head_dim, i64 seqlen_q, i64 seqlen_k, const char* mask, ScaleOf v,
                   i64 heads_kv = 1) {
  return {.dtype = Dtype::e4m3,
          .num_heads_q = 2,
          .num_heads_kv = heads_kv,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim = head_dim,
          .mask = parse_mask(mask),
          .seed = 11,
          .quantisation = {.v = v}};
}

struct Drawn {
  std::vector<float> q, k, v;

  explicit Drawn(const E4m3Case& what) {
    const Problem& problem = what.problem;
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    const auto draw = [&](i64 elements) {
      std::vector<float> values(static_cast<std::size_t>(elements));
      for (float& value : values) value = normal(generator);
      return values;
    };
    q = draw(problem.elements_q());
    k = draw(problem.elements_k());
    v = draw(problem.elements_k());
    if (what.kind != InputKind::normal) {
      for (float& value : v) value = what.kind == InputKind::v_one ? 1.0f : value + 1.0f;
    }
    if (!what.has_negative_scores) return;
    for (float& value : q) value = 0.25f * std::fabs(value);  // larger S lose more of their sums
    for (float& value : k) value = -std::fabs(value);
  }
};

// HostInputs holds q, k, v, and what the laboratory makes of them.
struct HostInputs : Drawn, QuantisedOnCpu {
  explicit HostInputs(const E4m3Case& what)
      : Drawn(what), QuantisedOnCpu(what.problem, q, k, v, 1) {}
};

struct Outputs {
  std::vector<float> o, lse;
};

constexpr i64 kRowsOfWarp = 16;
constexpr double kShift = 0x1p8;  // that P is multiplied with
constexpr double kDoubt = 0.01;   // of a score: what 13 bits of its sums may lose

// Twin computes the rows of a warp, in double.
class Twin {
 public:
  Twin(const Problem& problem, const HostInputs& inputs, const v3::ForwardConfig& kernel)
      : problem_(problem),
        shape_(make_shape(problem)),
        inputs_(inputs),
        block_n_(kernel.block_n),
        slack_(kernel.promote ? 0.0 : std::log(2.0) * kSlackOfP) {}

  struct Row {
    // Clear if a maximum was so close to the slack that a kernel's sums may vote otherwise.
    bool is_decided = true;
    double lse = 0.0, lse_bound = 0.0;
    std::vector<double> o;
  };
  // Computes rows [first, first + kRowsOfWarp) that exist; `first_row` and `first_key` are of the
  // batch entry in its tensors.
  std::vector<Row> rows(const Mask& mask, i64 b, i64 h, i64 first, i64 first_row,
                        i64 first_key) const {
    std::vector<State> states;
    for (i64 r = first; r < std::min(first + kRowsOfWarp, mask.seqlen_q); ++r) {
      states.emplace_back(r, shape_.q.offset(b, h, first_row + r), problem_.head_dim);
    }
    const i64 offset_k = shape_.k.offset(b, shape_.kv_head(h), first_key);
    for (i64 tile = ceil_div<i64>(mask.seqlen_k, block_n_) - 1; tile >= 0; --tile) {
      const Range keys = tile_range(tile, block_n_, mask.seqlen_k);
      for (State& state : states) {
        score(state, mask, b, h, keys, offset_k);
        const double limit = state.reference + slack_;
        if (slack_ != 0.0 && std::fabs(state.tile_max - limit) <= kDoubt) state.is_decided = false;
        add(state, state.tile_max > limit, b, h, keys, offset_k);
      }
    }
    std::vector<Row> rows;
    for (State& state : states) rows.push_back(finish(state));
    return rows;
  }

 private:
  struct State {
    State(i64 row, i64 offset, i64 head_dim)
        : r(row), offset_q(offset), o(static_cast<std::size_t>(head_dim)) {}
    i64 r, offset_q;
    bool is_decided = true;
    double reference = -HUGE_VAL, sum = 0.0, largest = 0.0;
    std::vector<double> scores;  // of a tile
    double tile_max = 0.0;
    std::vector<double> o;
  };

  // Computes the scores of a row and a tile.
  void score(State& state, const Mask& mask, i64 b, i64 h, const Range& keys, i64 offset_k) const {
    const i64 kv = b * shape_.num_heads_kv + shape_.kv_head(h);
    const float scale_q =
        at(inputs_.scale_q, (b * shape_.num_heads_q + h) * ceil_div(problem_.seqlen_q, kScaleRows) +
                                state.r / kScaleRows);
    state.scores.clear();
    state.tile_max = -HUGE_VAL;
    for (i64 key = keys.begin; key < keys.end; ++key) {
      double score = 0.0, size = 0.0;
      for (i64 c = 0; c < problem_.head_dim; ++c) {
        const double term = code(inputs_.codes_q, state.offset_q + c) *
                            code(inputs_.codes_k, offset_k + key * shape_.k.row + c);
        score += term;
        size += std::fabs(term);
      }
      const double scale =
          double{scale_q} *
          at(inputs_.scale_k, kv * ceil_div(problem_.seqlen_k, kScaleRows) + key / kScaleRows) *
          shape_.softmax_scale;
      state.largest = std::max(state.largest, scale * size);
      state.scores.push_back(is_visible(mask, state.r, key) ? scale * score : -HUGE_VAL);
      state.tile_max = std::max(state.tile_max, state.scores.back());
    }
  }

  // Adds a tile's P V to a row.
  void add(State& state, bool raises, i64 b, i64 h, const Range& keys, i64 offset_k) const {
    const i64 kv = b * shape_.num_heads_kv + shape_.kv_head(h);
    if (raises) {
      const double factor = std::exp(state.reference - state.tile_max);
      state.reference = state.tile_max;
      state.sum *= factor;
      for (double& value : state.o) value *= factor;
    }
    if (state.tile_max == -HUGE_VAL) return;
    for (i64 key = keys.begin; key < keys.end; ++key) {
      const double p =
          std::exp(state.scores[static_cast<std::size_t>(key - keys.begin)] - state.reference);
      state.sum += p;
      const double rounded = f32_from_e4m3(e4m3_from_f32(static_cast<float>(kShift * p))) / kShift;
      for (i64 c = 0; c < problem_.head_dim; ++c) {
        const double value = code(inputs_.codes_v, offset_k + key * shape_.k.row + c) *
                             scale_v(kv, key, c, ceil_div(problem_.seqlen_k, kScaleRows));
        state.o[static_cast<std::size_t>(c)] += rounded * value;
      }
    }
  }

  Row finish(State& state) const {
    const double sum = state.sum;
    for (double& value : state.o) value = sum == 0.0 ? 0.0 : value / sum;
    return {.is_decided = state.is_decided,
            .lse = sum == 0.0 ? -HUGE_VAL : state.reference + std::log(sum),
            .lse_bound = (static_cast<double>(problem_.head_dim) / 32.0 + 1.0) * 0x1p-13 *
                         (1.0 + state.largest),
            .o = state.o};
  }

  static double code(const std::vector<std::uint8_t>& codes, i64 index) {
    return f32_from_e4m3(codes[static_cast<std::size_t>(index)]);
  }
  static float at(const std::vector<float>& values, i64 index) {
    return values[static_cast<std::size_t>(index)];
  }
  double scale_v(i64 kv, i64 key, i64 column, i64 blocks_k) const {
    return problem_.quantisation.v == ScaleOf::channel
               ? at(inputs_.scale_v, kv * problem_.head_dim + column)
               : at(inputs_.scale_v, kv * blocks_k + key / kScaleRows);
  }

  const Problem& problem_;
  const Shape shape_;
  const HostInputs& inputs_;
  i32 block_n_;
  double slack_;  // that references may be below maxima
};

class E4m3Forward : public GpuTest, public testing::WithParamInterface<E4m3Case> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (!IsSkipped() && gpu().compute_capability != 90) GTEST_SKIP() << "this GPU has no wgmma";
  }

  // Gives the config the tiles that are chosen where there are as many rows as keys.
  static void take_tiles_of_long(Problem problem, Config& config) {
    problem.seqlen_q = problem.seqlen_k;
    const v3::ForwardConfig kernel = v3::forward_config_of(problem, config);
    config.set_all(
        {{"consumers", kernel.consumers}, {"block_n", kernel.block_n}, {"stages", kernel.stages}});
  }

  static std::vector<i32> running_sum(const std::vector<i64>& lengths) {
    std::vector<i32> sums = {0};
    for (const i64 length : lengths) sums.push_back(sums.back() + static_cast<i32>(length));
    return sums;
  }

  static Outputs run(const Problem& problem, const Config& config, const HostInputs& inputs) {
    const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
    Arena arena(runtime());
    std::vector<Arena::Buffer> buffers;
    const auto upload = [&](const auto& values) {
      const std::size_t bytes = values.size() * sizeof values[0];
      buffers.push_back(arena.allocate("input", bytes));
      runtime().write(buffers.back().get(), values.data(), bytes);
      return buffers.back().get();
    };
    const auto codes = [&](const auto& values) {
      return static_cast<const std::uint8_t*>(upload(values));
    };
    const auto scales = [&](const auto& values) {
      return static_cast<const float*>(upload(values));
    };
    const auto room = [&](u64 bytes) {
      buffers.push_back(arena.allocate("output", bytes));
      return buffers.back().get();
    };
    Tensors tensors;
    tensors.e4m3 = {.q = codes(inputs.codes_q),
                    .k = codes(inputs.codes_k),
                    .v_transposed = codes(inputs.transposed),
                    .scale_q = scales(inputs.scale_q),
                    .scale_k = scales(inputs.scale_k),
                    .scale_v = scales(inputs.scale_v)};
    std::vector<std::uint16_t> halves(static_cast<std::size_t>(problem.elements_q()));
    Outputs outputs;
    outputs.lse.resize(static_cast<std::size_t>(problem.elements_lse()));
    tensors.o = room(halves.size() * 2);
    tensors.lse = static_cast<float*>(room(outputs.lse.size() * sizeof(float)));
    if (problem.layout == Layout::packed) {
      tensors.cu_seqlens_q = static_cast<const i32*>(upload(running_sum(problem.lengths.queries)));
      tensors.cu_seqlens_k = static_cast<const i32*>(upload(running_sum(problem.lengths.keys)));
    } else if (!problem.lengths.keys.empty()) {
      const std::vector<i32> keys(problem.lengths.keys.begin(), problem.lengths.keys.end());
      tensors.keys = static_cast<const i32*>(upload(keys));
    }
    if (problem.has_pattern()) {
      tensors.block_pattern = static_cast<const u8*>(upload(make_block_pattern(problem)));
    }
    tensors.workspace_bytes = v3.workspace_bytes(problem, config, gpu());
    tensors.workspace = room(tensors.workspace_bytes);
    PreparedKernel* const prepared = v3.prepare(problem, config, gpu());
    v3.launch(prepared, tensors, runtime().queue());
    runtime().synchronize();
    v3.release(prepared);
    runtime().read(halves.data(), tensors.o, halves.size() * 2);
    runtime().read(outputs.lse.data(), tensors.lse, outputs.lse.size() * sizeof(float));
    for (const std::uint16_t half : halves) outputs.o.push_back(f32_from_f16(half));
    return outputs;
  }
};

// A twin that rounds P where the kernel does differs from it where fp32 brings P to another side of
// a rounding border: the error of O is small beside what e4m3 itself loses (2 to 3 % of P's noise).
TEST_P(E4m3Forward, IsThatOfTheTwin) {
  const Problem& problem = GetParam().problem;
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  Config config = default_config(v3);
  config.set_all(GetParam().config);
  if (GetParam().has_tiles_of_long) take_tiles_of_long(problem, config);
  ASSERT_EQ(invalid(problem), "");
  ASSERT_EQ(v3.unsupported(problem, config, gpu()), "");
  const HostInputs inputs(GetParam());
  const Outputs outputs = run(problem, config, inputs);
  const Shape shape = make_shape(problem);
  const std::vector<u8> pattern = make_block_pattern(problem);
  const v3::ForwardConfig kernel = v3::forward_config_of(problem, config);
  const Twin twin(problem, inputs, kernel);
  double difference = 0.0, size = 0.0;       // squares
  double mean_difference = 0.0, mean = 0.0;  // sums
  i64 first_row = 0, first_key = 0, num_rows = 0, undecided = 0;
  for (i64 b = 0; b < problem.batch; ++b) {
    const Mask mask = make_mask(problem, b, view_block_pattern(problem, pattern.data()));
    for (i64 h = 0; h < problem.num_heads_q; ++h) {
      std::vector<Twin::Row> rows;
      for (i64 r = 0; r < mask.seqlen_q; ++r) {
        if (r % kRowsOfWarp == 0) rows = twin.rows(mask, b, h, r, first_row, first_key);
        const Twin::Row& row = rows[static_cast<std::size_t>(r % kRowsOfWarp)];
        const i64 offset = shape.q.offset(b, h, first_row + r);
        const float lse =
            outputs.lse[static_cast<std::size_t>(shape.row_statistic_offset(b, h, r))];
        if (row.lse == -HUGE_VAL) {
          EXPECT_EQ(lse, -kInfinity) << b << " " << h << " " << r;
        } else {
          const double lse_error = std::fabs(lse - row.lse);
          EXPECT_LE(lse_error, row.lse_bound) << b << " " << h << " " << r;
        }
        ++num_rows;
        if (!row.is_decided) {
          ++undecided;
          continue;
        }
        for (i64 c = 0; c < problem.head_dim; ++c) {
          const double expected = row.o[static_cast<std::size_t>(c)];
          const double error = outputs.o[static_cast<std::size_t>(offset + c)] - expected;
          difference += error * error;
          size += expected * expected;
          mean_difference += error;
          mean += std::fabs(expected);
        }
      }
    }
    if (problem.layout == Layout::packed) {
      first_row += mask.seqlen_q;
      first_key += mask.seqlen_k;
    }
  }
  if (GetParam().kind != InputKind::normal) {
    const double bias = std::fabs(mean_difference) / mean;
    RecordProperty("bias", std::to_string(bias));
    EXPECT_LE(bias, bias_bound(problem.seqlen_k));
  }
  const double relative_error = std::sqrt(difference / size);
  RecordProperty("relative_error", std::to_string(relative_error));
  EXPECT_LE(relative_error, kTolerance);
  EXPECT_LE(4 * undecided, num_rows);
}

Problem packed(Problem problem) {
  pack(problem, {70, 129, 1}, {200, 31, 150});
  problem.seqlen_q = 129;
  problem.seqlen_k = 200;
  return problem;
}

Problem padded(Problem problem) {
  problem.batch = 2;
  problem.lengths = {.kind = LengthsKind::padding, .given = true, .keys = {130, 257}};
  return problem;
}

// Gives each head of Q and K one scale, as tiles of 192 keys need it.
Problem by_head(Problem problem) {
  problem.quantisation.qk = ScaleOf::head;
  return problem;
}

// Returns a case that sees how O is summed over many keys. Its one item has 192 rows, so that each
// of three consumers has some. No tile has scales of its own, for which O would be rescaled.
E4m3Case long_sum(const char* name, i64 head_dim, i64 keys, InputKind kind, ScaleOf scale_of_v) {
  Problem problem = by_head(problem_of(head_dim, 192, keys, "none", scale_of_v));
  problem.num_heads_q = 1;
  return {.name = name, .problem = problem, .config = {}, .kind = kind, .has_tiles_of_long = true};
}

const E4m3Case kCases[] = {
    {"d128", problem_of(128, 130, 300, "none", ScaleOf::block), {}},
    {"d128_channel", problem_of(128, 70, 300, "none", ScaleOf::channel, 2), {}},
    {"d128_not_promoted", problem_of(128, 70, 300, "none", ScaleOf::channel), {{"promote", 0}}},
    {"d128_n64", problem_of(128, 130, 300, "causal", ScaleOf::block), {{"block_n", 64}}},
    {"d128_no_overlap", problem_of(128, 70, 300, "causal", ScaleOf::block), {{"overlap", 0}}},
    {"d128_three_consumers",
     problem_of(128, 200, 600, "causal", ScaleOf::block),
     {{"consumers", 3}, {"stages", 2}}},
    {"d64_192_keys",
     by_head(packed(problem_of(64, 1, 1, "causal", ScaleOf::head))),
     {{"consumers", 3}, {"block_n", 192}, {"stages", 3}}},
    {"d128_192_keys",
     by_head(problem_of(128, 200, 700, "window:400:0", ScaleOf::channel)),
     {{"block_n", 192}, {"stages", 2}, {"promote", 0}}},
    {"d128_192_keys_negative",
     by_head(problem_of(128, 70, 384, "none", ScaleOf::channel)),  // whole tiles alone
     {{"block_n", 192}, {"stages", 2}, {"promote", 0}},
     InputKind::normal,
     true},
    {"d256_64_keys", problem_of(256, 70, 200, "causal", ScaleOf::channel), {{"block_n", 64}}},
    {"d256_promoted", problem_of(256, 70, 300, "causal", ScaleOf::channel), {{"promote", 1}}},
    {"d64_causal", problem_of(64, 200, 400, "causal", ScaleOf::block), {}},
    {"d64_window", problem_of(64, 300, 500, "window:200:20", ScaleOf::block), {{"block_n", 64}}},
    {"d128_one_scale", problem_of(128, 70, 300, "none", ScaleOf::tensor), {{"promote", 0}}},
    {"d64_one_consumer", problem_of(64, 200, 300, "causal", ScaleOf::head), {{"consumers", 1}}},
    {"d64_three_consumers",
     problem_of(64, 300, 400, "causal", ScaleOf::channel),
     {{"promote", 0}, {"consumers", 3}}},
    {"d80", problem_of(80, 130, 200, "causal", ScaleOf::block), {}},
    {"d192", problem_of(192, 70, 200, "none", ScaleOf::channel), {}},
    {"d256", problem_of(256, 70, 200, "causal", ScaleOf::channel), {}},
    {"blocks", problem_of(64, 512, 512, "blocks:butterfly:64x64", ScaleOf::block), {}},
    {"rows_without_keys", problem_of(64, 200, 70, "causal", ScaleOf::block), {}},
    {"packed", packed(problem_of(64, 1, 1, "causal", ScaleOf::block)), {}},
    {"padded", padded(problem_of(128, 70, 257, "padding", ScaleOf::block)), {}},
    {"v_mean_one", problem_of(128, 70, 4096, "none", ScaleOf::block), {}, InputKind::v_mean_one},
    long_sum("d64_4096_v_one", 64, 4096, InputKind::v_one, ScaleOf::head),
    long_sum("d64_4096_v_mean_one", 64, 4096, InputKind::v_mean_one, ScaleOf::channel),
    long_sum("d64_16384_v_one", 64, 16384, InputKind::v_one, ScaleOf::channel),
    long_sum("d64_16384_v_mean_one", 64, 16384, InputKind::v_mean_one, ScaleOf::head),
    long_sum("d128_4096_v_one", 128, 4096, InputKind::v_one, ScaleOf::channel),
    long_sum("d128_4096_v_mean_one", 128, 4096, InputKind::v_mean_one, ScaleOf::head),
    long_sum("d128_16384_v_one", 128, 16384, InputKind::v_one, ScaleOf::head),
    long_sum("d128_16384_v_mean_one", 128, 16384, InputKind::v_mean_one, ScaleOf::channel)};

INSTANTIATE_TEST_SUITE_P(Problems, E4m3Forward, testing::ValuesIn(kCases),
                         [](const auto& what) { return std::string(what.param.name); });

}  // namespace
}  // namespace attnlab
