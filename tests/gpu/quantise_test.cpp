// Compares quantisation on a GPU with the same on the CPU, byte by byte, and says how fast it is
// beside a copy.
#include "kernels/api/device_quantiser.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "harness/plan/cost.h"
#include "harness/run/run.h"
#include "harness/tensors/arena.h"
#include "kernels/api/test_quantised.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/peak_kernels.h"
#include "tests/gpu/gpu_fixture.h"

namespace attnlab {
namespace {

// Says what the inputs hold beside numbers drawn from N(0,1).
enum class Odd : std::uint8_t {
  nothing,
  large,      // some columns and rows are larger, one block is all zeros
  not_finite  // NaN of both signs, infinities, subnormal numbers, -0
};

struct QuantiseCase {
  const char* name;
  Problem problem;
  Odd odd = Odd::nothing;
};

void PrintTo(const QuantiseCase& what, std::ostream* stream) { *stream << what.name; }

Problem problem_of(i64 head_dim, i64 seqlen_q, i64 seqlen_k, const Quantisation& how) {
  return {.dtype = Dtype::e4m3,
          .batch = 2,
          .num_heads_q = 4,
          .num_heads_kv = 2,
          .seqlen_q = seqlen_q,
          .seqlen_k = seqlen_k,
          .head_dim = head_dim,
          .seed = 0x1234567890,
          .quantisation = how};
}

Problem bhsd(Problem problem) {
  problem.layout = Layout::bhsd;
  return problem;
}

Problem padded(Problem problem) {
  problem.mask.padding.emplace();
  problem.lengths = {.kind = LengthsKind::padding, .given = true, .keys = {problem.seqlen_k, 5}};
  return problem;
}

// Some of the entries' places in V^T have a block more than their keys need, others have not.
Problem packed(Problem problem) {
  problem.batch = 4;
  problem.layout = Layout::packed;
  problem.lengths = {.kind = LengthsKind::packed,
                     .given = true,
                     .queries = {70, 129, 1, 128},
                     .keys = {200, 31, 150, 128}};
  problem.seqlen_q = 129;
  problem.seqlen_k = 200;
  return problem;
}

float odd_value(Odd odd, i64 index, i64 head_dim, float value) {
  const i64 row = index / head_dim, column = index % head_dim;
  if (odd == Odd::large) {
    if (row % 512 < 130) return row % 2 == 0 ? 0.0f : -0.0f;
    return value * (column % 37 == 3 ? 1e6f : 1.0f) * (row % 61 == 7 ? 1e30f : 1.0f);
  }
  if (odd == Odd::not_finite) {
    switch (index % 4099) {
      case 5: return std::numeric_limits<float>::quiet_NaN();
      case 700: return -std::numeric_limits<float>::quiet_NaN();
      case 1400: return kInfinity;
      case 2100: return -kInfinity;
      case 2101: return kInfinity;
      case 2800: return -0.0f;
      default: return index % 3 == 0 ? value * 0x1p-130f : value;
    }
  }
  return value;
}

struct Drawn {
  std::vector<float> q, k, v;

  Drawn(const Problem& problem, Odd odd) {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal;
    const auto draw = [&](i64 elements) {
      std::vector<float> values;
      for (i64 i = 0; i < elements; ++i) {
        values.push_back(odd_value(odd, i, problem.head_dim, normal(generator)));
      }
      return values;
    };
    q = draw(problem.elements_q());
    k = draw(problem.elements_k());
    v = draw(problem.elements_k());
  }
};

// Expected holds q, k and v of a problem, and what the CPU makes of them.
struct Expected : Drawn, QuantisedOnCpu {
  Expected(const Problem& problem, Odd odd)
      : Drawn(problem, odd), QuantisedOnCpu(problem, q, k, v, 1) {}
};

class QuantiseOnGpu : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const Problem problem = problem_of(64, 1, 1, {});
    if (const std::string why = why_no_quantiser(problem, gpu()); !why.empty()) GTEST_SKIP() << why;
    arena_.emplace(runtime());
  }

  template <class T>
  T* upload(const std::vector<T>& values) {
    void* const data = room(values.size() * sizeof(T));
    runtime().write(data, values.data(), values.size() * sizeof(T));
    return static_cast<T*>(data);
  }

  // Is filled with 0xFF.
  void* room(std::size_t bytes) {
    buffers_.push_back(arena_->allocate("a tensor", bytes));
    return buffers_.back().get();
  }

  Tensors upload_lengths(const Problem& problem) {
    const auto narrow = [](const std::vector<i64>& lengths) {
      return std::vector<i32>(lengths.begin(), lengths.end());
    };
    const auto running_sum = [](const std::vector<i64>& lengths) {
      std::vector<i32> sums = {0};
      for (const i64 length : lengths) sums.push_back(sums.back() + static_cast<i32>(length));
      return sums;
    };
    Tensors tensors;
    if (problem.layout == Layout::packed) {
      tensors.cu_seqlens_q = upload(running_sum(problem.lengths.queries));
      tensors.cu_seqlens_k = upload(running_sum(problem.lengths.keys));
    } else if (!problem.lengths.keys.empty()) {
      tensors.keys = upload(narrow(problem.lengths.keys));
    }
    return tensors;
  }

  E4m3Outputs make_outputs(const Problem& problem) {
    const auto codes = [&](i64 elements) {
      return static_cast<std::uint8_t*>(room(static_cast<std::size_t>(elements)));
    };
    const auto scales = [&](i64 elements) {
      return static_cast<float*>(room(static_cast<std::size_t>(elements) * sizeof(float)));
    };
    return {.q = codes(problem.elements_q()),
            .k = codes(problem.elements_k()),
            .v = codes(problem.elements_k()),
            .v_transposed = codes(elements_v_transposed(problem)),
            .scale_q = scales(elements_scale_q(problem)),
            .scale_k = scales(elements_scale_k(problem)),
            .scale_v = scales(elements_scale_v(problem))};
  }

  // Compares every byte, then fills the tensor with other bytes, for the next launch.
  template <class T>
  void expect_same(const char* name, const std::vector<T>& expected, T* got) {
    std::vector<T> read(expected.size());
    const std::size_t bytes = read.size() * sizeof(T);
    runtime().read(read.data(), got, bytes);
    std::size_t wrong = 0, first = 0;
    for (std::size_t i = read.size(); i-- > 0;) {
      if (std::memcmp(&read[i], &expected[i], sizeof(T)) == 0) continue;
      ++wrong;
      first = i;
    }
    EXPECT_EQ(wrong, 0U) << name << " differs in " << wrong << " of " << read.size()
                         << " elements, first at " << first << ": " << +read[first] << ", not "
                         << +expected[first];
    runtime().fill(got, 0x11, bytes);
  }

  std::optional<Arena> arena_;
  std::vector<Arena::Buffer> buffers_;
};

class QuantisedOnGpu : public QuantiseOnGpu, public testing::WithParamInterface<QuantiseCase> {};

TEST_P(QuantisedOnGpu, HasTheBitsOfTheCpu) {
  const auto& [name, problem, odd] = GetParam();
  ASSERT_EQ(invalid(problem), "");
  ASSERT_EQ(why_no_quantiser(problem, gpu()), "");
  const Expected expected(problem, odd);
  Tensors inputs = upload_lengths(problem);
  inputs.q = upload(expected.q);
  inputs.k = upload(expected.k);
  inputs.v = upload(expected.v);
  const E4m3Outputs outputs = make_outputs(problem);
  const auto quantiser = make_device_quantiser(problem, gpu());
  for (const char* launch : {"first launch", "second launch"}) {
    SCOPED_TRACE(launch);
    quantiser->launch(inputs, outputs);
    runtime().synchronize();
    expect_same("q", expected.codes_q, outputs.q);
    expect_same("k", expected.codes_k, outputs.k);
    expect_same("v", expected.codes_v, outputs.v);
    expect_same("v_transposed", expected.transposed, outputs.v_transposed);
    expect_same("scale_q", expected.scale_q, outputs.scale_q);
    expect_same("scale_k", expected.scale_k, outputs.scale_k);
    expect_same("scale_v", expected.scale_v, outputs.scale_v);
  }
  EXPECT_EQ(arena_->restore_guards(), "");
}

constexpr Quantisation kBlocks = {.qk = ScaleOf::block, .v = ScaleOf::block};
constexpr Quantisation kChannels = {.qk = ScaleOf::block, .v = ScaleOf::channel};
constexpr Quantisation kHeads = {.qk = ScaleOf::head, .v = ScaleOf::head};
constexpr Quantisation kTensors = {.qk = ScaleOf::tensor, .v = ScaleOf::tensor};
constexpr Quantisation kNotRotated = {.qk = ScaleOf::block, .v = ScaleOf::channel, .rotate = false};

const QuantiseCase kCases[] = {
    {"d16", problem_of(16, 130, 140, kChannels)},
    {"d48", problem_of(48, 70, 128, kBlocks), Odd::large},
    {"d64_blocks", problem_of(64, 257, 300, kBlocks), Odd::large},
    {"d64_not_rotated", bhsd(problem_of(64, 129, 257, kNotRotated)), Odd::large},
    {"d80", problem_of(80, 130, 200, kTensors), Odd::large},
    {"d112", bhsd(problem_of(112, 3, 130, kHeads))},
    {"d128_channels", problem_of(128, 256, 384, kChannels), Odd::large},
    {"d128_heads", bhsd(problem_of(128, 130, 259, kHeads)), Odd::large},
    {"d192", problem_of(192, 100, 150, kBlocks)},
    {"d240", problem_of(240, 20, 17, kHeads), Odd::large},
    {"d256", bhsd(problem_of(256, 129, 127, kChannels))},
    {"not_finite_blocks", problem_of(64, 300, 270, kBlocks), Odd::not_finite},
    {"not_finite_columns", problem_of(96, 140, 270, kNotRotated), Odd::not_finite},
    {"not_finite_heads", problem_of(128, 140, 270, kHeads), Odd::not_finite},
    {"not_finite_tensors", problem_of(32, 140, 270, kTensors), Odd::not_finite},
    {"padded_blocks", padded(problem_of(64, 130, 300, kBlocks)), Odd::not_finite},
    {"padded_columns", padded(bhsd(problem_of(80, 70, 257, kChannels))), Odd::large},
    {"packed_blocks", packed(problem_of(64, 1, 1, kBlocks)), Odd::large},
    {"packed_columns", packed(problem_of(48, 1, 1, kChannels)), Odd::not_finite},
    {"packed_tensors", packed(problem_of(128, 1, 1, kTensors))}};

INSTANTIATE_TEST_SUITE_P(Problems, QuantisedOnGpu, testing::ValuesIn(kCases),
                         [](const auto& what) { return std::string(what.param.name); });

// Holds a point as a run measures it: v3 and its inputs, and what became of both.
TEST_F(QuantiseOnGpu, IsTimedBesideAPoint) {
  if (gpu().compute_capability != 90) GTEST_SKIP() << "v3 needs compute capability 9.0";
  set_compiler({.cache_folder = gpu_test_cache(), .worker_program = in_build("attnlab")});
  Case work;
  work.problem = packed(problem_of(64, 1, 1, kChannels));
  const Implementation& v3 = *builtin_registry().find("v3", Backend::cuda);
  work.competitors = {{.kernel = "v3",
                       .backend = Backend::cuda,
                       .implementation = &v3,
                       .config = default_config(v3)}};
  RunContext context;
  context.device = &gpu();
  context.protocol = {
      .min_rounds = 2, .max_rounds = 2, .warmup_seconds = 0.0, .cache = CacheState::cold};
  context.memory_limit_bytes = u64{1} << 30;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  Progress progress(file.get(), case_weight(work, context.protocol));
  std::vector<Record> records;
  run_case(work, context, progress,
           [&](const std::vector<Record>& finished) { records = finished; });
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].status, Status::ok) << records[0].reason;
  ASSERT_TRUE(records[0].quantise.has_value());
  EXPECT_EQ(records[0].quantise->reason, "");
  ASSERT_TRUE(records[0].quantise->time.has_value());
  EXPECT_EQ(records[0].quantise->time->samples_s.size(), 2U);
  const std::vector<KernelUnit> units = quantiser_units(work.problem, gpu());
  ASSERT_EQ(units.size(), 2U);
  ASSERT_EQ(records[0].quantise->compilations.size(), units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    const Compilation& made = records[0].quantise->compilations[i];
    EXPECT_EQ(made.unit, units[i].name);
    EXPECT_EQ(made.text_sha256.size(), 64U);
    ASSERT_EQ(made.entries.size(), units[i].entries.size());
    for (std::size_t j = 0; j < made.entries.size(); ++j) {
      EXPECT_EQ(made.entries[j].entry.name, units[i].entries[j].name);
    }
  }
  // q and k are read once, v twice; codes of all, V^T with room for padding, and scales.
  EXPECT_EQ(records[0].quantise->bytes,
            64U * (328 * 4 * 4 + 509 * 2 * (4 + 8) + 328 * 4 + 2 * 509 * 2) +
                static_cast<u64>(elements_v_transposed(work.problem)) +
                4U * (4 * 4 * 2 + 4 * 2 * 2 + 4 * 2 * 64));
}

// QuantiseSpeed takes 16384 tokens of hidden size 2048.
class QuantiseSpeed : public QuantiseOnGpu {
 protected:
  static constexpr int kRounds = 15, kLaunches = 20;
  static constexpr double kLeast = 0.8;  // of the rate of a copy; measured on an H200: 0.83 to 0.99

  void SetUp() override {
    if (std::getenv("ATTNLAB_EMULATED") != nullptr) GTEST_SKIP() << "the emulated GPU has no speed";
    QuantiseOnGpu::SetUp();
  }

  // Returns bytes a second, in the median.
  template <class Launch>
  static double rate(double bytes, const Launch& launch) {
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      seconds.push_back(runtime().seconds_of(kLaunches, [&](int) { launch(); }, {}) / kLaunches);
    }
    std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
    return bytes / seconds[kRounds / 2];
  }

  CUstream stream() const { return cuda::as_stream(runtime().queue()); }

  double rate_of_copy() {
    const cuda::PeakKernels kernels(gpu());
    const u64 step = kernels.blocks() * cuda::kPeakChunkBytes;
    const auto steps = static_cast<u32>((256u << 20) / step + 1);
    void* const from = room(steps * step);
    void* const to = room(steps * step);
    return rate(2.0 * static_cast<double>(steps * step),
                [&] { kernels.copy(stream(), from, to, steps); });
  }
};

TEST_F(QuantiseSpeed, BesideACopy) {
  const double copy = rate_of_copy();
  std::cout << "copy: " << copy * 1e-9 << " GB/s\n";
  const cuda::PeakKernels kernels(gpu());
  for (const i64 head_dim : {64, 128, 256}) {
    for (const Quantisation& how : {kBlocks, kChannels, kTensors}) {
      Problem problem = problem_of(head_dim, 16384, 16384, how);
      problem.batch = 1;
      problem.num_heads_q = problem.num_heads_kv = 2048 / head_dim;
      const auto elements = static_cast<std::size_t>(problem.elements_q());
      Tensors inputs;
      for (const void* Tensors::*member : {&Tensors::q, &Tensors::k, &Tensors::v}) {
        void* const values = room(elements * sizeof(float));
        kernels.fill_normal(stream(), Dtype::f32, values, elements);
        inputs.*member = values;
      }
      const E4m3Outputs outputs = make_outputs(problem);
      const auto quantiser = make_device_quantiser(problem, gpu());
      const auto bytes = static_cast<double>(quantiser->bytes());
      const double measured = rate(bytes, [&] { quantiser->launch(inputs, outputs); });
      const std::string what =
          "d" + std::to_string(head_dim) + "_" + to_string(how.qk) + "_" + to_string(how.v);
      std::cout << what << ": " << 1e6 * bytes / measured << " us, " << measured * 1e-9 << " GB/s, "
                << measured / copy << " of the copy\n";
      RecordProperty(what, std::to_string(measured / copy));
      EXPECT_GE(measured, kLeast * copy) << what;
      buffers_.clear();
    }
  }
}

}  // namespace
}  // namespace attnlab
