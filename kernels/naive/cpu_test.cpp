// Tests naive on the CPU: closed forms of its traffic, the P that it saves, and what 16-bit storage
// asks for.
#include "kernels/naive/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/naive/schedule.h"
#include "kernels/shared/convert.h"

namespace attnlab::naive {
namespace {

constexpr i64 kSeqlenQ = 70, kSeqlenK = 300, kHeadDim = 24;
constexpr i64 kSlices = 8, kSlicesKv = 4;  // batch x heads
constexpr i64 kTensorQ = kSlices * kSeqlenQ * kHeadDim;
constexpr i64 kTensorK = kSlices * kSeqlenK * kHeadDim;  // as each query head reads it
constexpr i64 kTensorKv = kSlicesKv * kSeqlenK * kHeadDim;
constexpr i64 kMatrix = kSlices * kSeqlenQ * kSeqlenK;

Problem make_problem(Pass pass, Dtype dtype, const char* mask, double dropout) {
  return {.pass = pass,
          .dtype = dtype,
          .batch = 2,
          .num_heads_q = kSlices / 2,
          .num_heads_kv = kSlicesKv / 2,
          .seqlen_q = kSeqlenQ,
          .seqlen_k = kSeqlenK,
          .head_dim = kHeadDim,
          .mask = parse_mask(mask),
          .dropout = dropout};
}

Traffic traffic_of(const Problem& problem) { return kCpu.traffic(problem, default_config(kCpu)); }

OperandTraffic elements(Dtype dtype, i64 read, i64 written) {
  return {.read_bytes = read * size_bytes(dtype), .write_bytes = written * size_bytes(dtype)};
}

struct Case {
  Dtype dtype;
  const char* mask;
  double dropout;
  i64 masked() const { return parse_mask(mask).is_none() ? 0 : 1; }
  i64 dropped() const { return dropout > 0.0 ? 1 : 0; }
};

class NaiveTraffic : public testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(Case, NaiveTraffic,
                         testing::Values(Case{Dtype::f32, "none", 0.0},
                                         Case{Dtype::f32, "causal", 0.0},
                                         Case{Dtype::f32, "none", 0.1},
                                         Case{Dtype::f16, "window:9:9", 0.1},
                                         Case{Dtype::bf16, "none", 0.0}),
                         [](const auto& param) {
                           return std::string(to_string(param.param.dtype)) +
                                  (param.param.masked() ? "_masked" : "") +
                                  (param.param.dropped() ? "_dropout" : "");
                         });

TEST_P(NaiveTraffic, ForwardMovesEachMatrixOnceAPass) {
  const auto& [dtype, mask, dropout] = GetParam();
  const i64 masked = GetParam().masked(), dropped = GetParam().dropped();
  const Traffic traffic = traffic_of(make_problem(Pass::fwd, dtype, mask, dropout));
  EXPECT_EQ(traffic[Operand::q], elements(dtype, kTensorQ, 0));
  EXPECT_EQ(traffic[Operand::k], elements(dtype, kTensorK, 0));
  EXPECT_EQ(traffic[Operand::v], elements(dtype, kTensorK, 0));
  EXPECT_EQ(traffic[Operand::o], elements(dtype, 0, kTensorQ));
  EXPECT_EQ(traffic[Operand::s], elements(dtype, (1 + masked) * kMatrix, (1 + masked) * kMatrix));
  EXPECT_EQ(traffic[Operand::p], elements(dtype, (1 + dropped) * kMatrix, (1 + dropped) * kMatrix));
  // In 16 bits a pass also moves the lse of each row of each panel of 256 keys.
  const i64 rows = kSlices * kSeqlenQ, parts = dtype == Dtype::f32 ? 0 : 2 * rows;
  EXPECT_EQ(traffic[Operand::lse], elements(Dtype::f32, parts, rows + parts));
  EXPECT_EQ(traffic.executed_flops, 4 * kMatrix * kHeadDim);

  // Matrices move Theta(N d + N^2): 4 elements each, and 2 for a mask and 2 for dropout.
  const i64 all = 2 * kTensorQ + 2 * kTensorK + (4 + 2 * masked + 2 * dropped) * kMatrix;
  EXPECT_EQ(traffic.read_bytes() + traffic.write_bytes(),
            all * size_bytes(dtype) + 4 * (rows + 2 * parts));
}

TEST_P(NaiveTraffic, BackwardMovesEachMatrixOnceAPass) {
  const auto& [dtype, mask, dropout] = GetParam();
  const i64 dropped = GetParam().dropped();
  const Traffic traffic = traffic_of(make_problem(Pass::bwd, dtype, mask, dropout));
  EXPECT_EQ(traffic[Operand::dout], elements(dtype, 2 * kTensorQ, 0));
  EXPECT_EQ(traffic[Operand::v], elements(dtype, kTensorK, 0));
  EXPECT_EQ(traffic[Operand::q], elements(dtype, kTensorQ, 0));
  EXPECT_EQ(traffic[Operand::k], elements(dtype, kTensorK, 0));
  EXPECT_EQ(traffic[Operand::dp],
            elements(dtype, (1 + dropped) * kMatrix, (1 + dropped) * kMatrix));
  EXPECT_EQ(traffic[Operand::ds], elements(dtype, 2 * kMatrix, kMatrix));
  EXPECT_EQ(traffic[Operand::p], elements(dtype, (2 + dropped) * kMatrix, dropped * kMatrix));
  EXPECT_EQ(traffic[Operand::dq], elements(dtype, 0, kTensorQ));
  EXPECT_EQ(traffic[Operand::dk], elements(dtype, 0, kTensorKv));
  EXPECT_EQ(traffic[Operand::dv], elements(dtype, 0, kTensorKv));
  EXPECT_EQ(traffic.executed_flops, 8 * kMatrix * kHeadDim);

  const i64 all = 4 * kTensorQ + 2 * kTensorK + 2 * kTensorKv + (7 + 4 * dropped) * kMatrix;
  EXPECT_EQ(traffic.read_bytes() + traffic.write_bytes(), all * size_bytes(dtype));

  Traffic both = traffic_of(make_problem(Pass::fwd, dtype, mask, dropout));
  both += traffic;
  EXPECT_EQ(traffic_of(make_problem(Pass::fwdbwd, dtype, mask, dropout)), both);
}

TEST(NaivePacked, OnlyTheEntriesOwnElementsCount) {
  Problem packed = make_problem(Pass::fwdbwd, Dtype::f32, "none", 0.0);
  packed.layout = Layout::packed;
  packed.lengths = {.kind = LengthsKind::packed, .queries = {70, 11}, .keys = {40, 300}};
  const i64 matrix = 4 * (70 * 40 + 11 * 300);
  EXPECT_EQ(traffic_of(packed)[Operand::s], elements(Dtype::f32, matrix, matrix));
  EXPECT_EQ(traffic_of(packed).executed_flops, 12 * matrix * kHeadDim);
}

TEST(NaiveMemory, SavesOneMatrixInTheStorageType) {
  const Config config = default_config(kCpu);
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
    const auto saved = [&](Pass pass) {
      return kCpu.saved_bytes(make_problem(pass, dtype, "causal", 0.1), config);
    };
    EXPECT_EQ(saved(Pass::fwd), 0u);
    EXPECT_EQ(saved(Pass::bwd), static_cast<u64>(kMatrix * size_bytes(dtype)));
    EXPECT_EQ(saved(Pass::fwdbwd), saved(Pass::bwd));
  }
}

// Trial is a problem of one slice with its memory; values are rounded to the storage type.
class Trial {
 public:
  explicit Trial(const Problem& p)
      : problem(p),
        q(static_cast<std::size_t>(p.elements_q())),
        k(static_cast<std::size_t>(p.elements_k())),
        v(k),
        o(q),
        dout(q),
        dq(q),
        dk(k),
        dv(k),
        lse(static_cast<std::size_t>(p.elements_lse())) {}

  void set(std::vector<u16>& tensor, i64 index, float value) const {
    tensor[static_cast<std::size_t>(index)] =
        problem.dtype == Dtype::f16 ? f16_from_f32(value) : bf16_from_f32(value);
  }
  float get(const std::vector<u16>& tensor, i64 index) const {
    const u16 bits = tensor[static_cast<std::size_t>(index)];
    return problem.dtype == Dtype::f16 ? f32_from_f16(bits) : f32_from_bf16(bits);
  }
  // Fills it with waves of amplitude `amplitude`, different for each tensor.
  void fill(std::vector<u16>& tensor, float amplitude, float frequency) const {
    for (std::size_t i = 0; i < tensor.size(); ++i) {
      set(tensor, static_cast<i64>(i), amplitude * std::sin(frequency * static_cast<float>(i + 1)));
    }
  }
  void launch(Pass pass) {
    const Device device = cpu::cpu_device();
    const Config config = default_config(kCpu);
    Problem part = problem;
    part.pass = Pass::bwd;
    saved.resize(kCpu.saved_bytes(part, config) / sizeof(u16));
    part.pass = pass;
    std::vector<std::byte> workspace(kCpu.workspace_bytes(part, config, device), std::byte{0xFF});
    const Tensors tensors = {.q = q.data(),
                             .k = k.data(),
                             .v = v.data(),
                             .o = o.data(),
                             .lse = lse.data(),
                             .dout = dout.data(),
                             .dq = dq.data(),
                             .dk = dk.data(),
                             .dv = dv.data(),
                             .saved = saved.data(),
                             .workspace = workspace.data(),
                             .workspace_bytes = workspace.size()};
    PreparedKernel* prepared = kCpu.prepare(part, config, device);
    kCpu.launch(prepared, tensors, nullptr);
    kCpu.release(prepared);
  }

  Problem problem;
  std::vector<u16> q, k, v, o, dout, dq, dk, dv, saved;
  std::vector<float> lse;
};

Problem one_slice(Dtype dtype, const char* mask) {
  return {.dtype = dtype,
          .seqlen_q = 20,
          .seqlen_k = 400,
          .head_dim = 8,
          .mask = parse_mask(mask),
          .layout = Layout::bhsd};
}

TEST(NaiveBackward, ReadsTheSavedP) {
  Trial run(one_slice(Dtype::f16, "none"));
  run.fill(run.q, 1.0f, 1.3f);
  run.fill(run.k, 1.0f, 0.7f);
  run.fill(run.v, 1.0f, 2.1f);
  run.fill(run.dout, 1.0f, 0.9f);
  run.launch(Pass::fwd);
  float sum = 0.0f;
  for (i64 c = 0; c < 400; ++c) sum += run.get(run.saved, c);
  EXPECT_NEAR(sum, 1.0f, 1e-2f);
  run.launch(Pass::bwd);
  EXPECT_NE(run.get(run.dv, 0), 0.0f);
  std::fill(run.saved.begin(), run.saved.end(), u16{0});
  run.launch(Pass::bwd);
  for (const u16 bits : run.dq) EXPECT_EQ(bits & 0x7FFF, 0);
  for (const u16 bits : run.dv) EXPECT_EQ(bits & 0x7FFF, 0);
}

// S is stored in 16 bits, lse is not taken from it: held to the bound of every kernel.
TEST(NaiveForward, LseHasThePrecisionOfFp32) {
  for (const char* mask : {"none", "causal"}) {
    Trial run(one_slice(Dtype::bf16, mask));
    run.fill(run.q, 3.0f, 1.3f);
    run.fill(run.k, 3.0f, 0.7f);
    run.launch(Pass::fwd);
    for (i64 r = 0; r < 20; ++r) {
      double sum = 0.0, score_bound = 0.0;
      for (i64 c = 0; c < (run.problem.mask.is_none() ? 400 : r + 381); ++c) {
        double score = 0.0, bound = 0.0;
        for (i64 x = 0; x < 8; ++x) {
          const double product = run.problem.scale() *
                                 static_cast<double>(run.get(run.q, r * 8 + x)) *
                                 static_cast<double>(run.get(run.k, c * 8 + x));
          score += product;
          bound += std::abs(product);
        }
        sum += std::exp(score);
        score_bound = std::max(score_bound, bound);
      }
      EXPECT_NEAR(static_cast<double>(run.lse[static_cast<std::size_t>(r)]), std::log(sum),
                  0x1p-19 * (1.0 + score_bound));
    }
  }
}

// Scores are scaled when they are summed, as a library's products are: whole numbers are exact
// until then. 60 times 9.3 lies in the middle between two numbers of bf16, 4 apart; a scale that is
// rounded with each element of K took equal scores to both.
TEST(NaiveForward, EqualScoresHaveEqualP) {
  Problem problem = one_slice(Dtype::bf16, "none");
  problem.softmax_scale = 9.3;
  Trial run(problem);
  for (i64 i = 0; i < problem.elements_q(); ++i) run.set(run.q, i, 1.0f);
  for (i64 c = 0; c < problem.seqlen_k; ++c) {
    float rest = 60.0f;
    for (i64 x = 0; x < 7; ++x) {
      const auto value = static_cast<float>((c + 3 * x) % 11 * 7);
      run.set(run.k, c * 8 + x, value);
      rest -= value;
    }
    run.set(run.k, c * 8 + 7, rest);
  }
  run.launch(Pass::fwd);
  const float p = run.get(run.saved, 0);
  EXPECT_NEAR(p, 1.0f / 400.0f, 0x1p-8f / 400.0f);
  for (i64 i = 0; i < problem.seqlen_q * problem.seqlen_k; ++i) {
    ASSERT_EQ(run.get(run.saved, i), p) << "of score " << i;
  }
}

// A hidden key's dP may overflow f16; nothing of it may reach a gradient.
TEST(NaiveBackward, HiddenKeysMayOverflow) {
  Trial run(one_slice(Dtype::f16, "window:10:10"));  // hides keys 0 to 369 from everybody
  run.fill(run.q, 1.0f, 1.3f);
  run.fill(run.k, 1.0f, 0.7f);
  run.fill(run.v, 1.0f, 2.1f);
  run.fill(run.dout, 1.0f, 0.05f);
  for (i64 x = 0; x < 8 * 300; ++x) run.set(run.v, x, 60000.0f);
  run.launch(Pass::fwd);
  run.launch(Pass::bwd);
  for (i64 i = 0; i < run.problem.elements_q(); ++i) EXPECT_LT(std::abs(run.get(run.dq, i)), 10.0f);
  for (i64 i = 0; i < 8 * 300; ++i) EXPECT_EQ(run.get(run.dk, i), 0.0f);
}

}  // namespace
}  // namespace attnlab::naive
