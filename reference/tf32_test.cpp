// Products in TF32 are held to a twin with products in TF32, and kernels that are worse than that
// are not excused.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/test_kernel_backward.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

References references_of(TestProblem& test, Products products) {
  const Samples samples = choose_samples(test.problem, kNoLimit, 0);
  return make_references(test.problem, test.tensors(), samples, 2, products);
}

// Runs forward and backward; factors of products come from the tensors as `operands` says.
TestProblem launched(const Problem& problem, Operands operands, std::uint64_t seed = 3,
                     bool scales_q = false) {
  TestProblem test(problem);
  test.problem.pass = Pass::fwdbwd;
  test.operands = operands;
  test.scales_q = scales_q;
  test.fill_normal(seed);
  run_forward(test, Fault::none);
  run_backward(test, Fault::none);
  return test;
}

std::vector<Verdict> judge(TestProblem& test, Products products) {
  return judge(test.problem, test.tensors(), references_of(test, products));
}

// Returns "o lse": the tensors that fail.
std::string failing(TestProblem& test, Products products) {
  std::string names;
  for (const Verdict& verdict : judge(test, products)) {
    if (!verdict.pass) names += (names.empty() ? "" : " ") + verdict.tensor;
  }
  return names;
}

TEST(Tf32, RoundsToTenBitsOfMantissaAndTiesToEven) {
  EXPECT_EQ(round_to_tf32(1.0f + 0x1p-10f), 1.0f + 0x1p-10f);
  EXPECT_EQ(round_to_tf32(1.0f + 0x1.8p-11f), 1.0f + 0x1p-10f);
  EXPECT_EQ(round_to_tf32(1.0f + 0x1p-12f), 1.0f);
  EXPECT_EQ(round_to_tf32(1.0f + 0x1p-11f), 1.0f);
  EXPECT_EQ(round_to_tf32(-1.0f - 0x3p-11f), -1.0f - 0x1p-9f);
  EXPECT_EQ(round_to_tf32(0x1.fffffep-3f), 0x1p-2f);
  EXPECT_EQ(round_to_tf32(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(round_to_tf32(bit_cast<float>(0x7F800001u))));
}

struct Size {
  std::int64_t head_dim, seqlen_k;
};

class Tf32Kernel : public testing::TestWithParam<Size> {
 protected:
  Problem problem(double dropout = 0.0) const {
    return {.seqlen_q = 40,
            .seqlen_k = GetParam().seqlen_k,
            .head_dim = GetParam().head_dim,
            .dropout = dropout,
            .seed = 5};
  }
};

TEST_P(Tf32Kernel, PassesAsTf32AndFailsAsF32) {
  for (const double dropout : {0.0, 0.2}) {
    TestProblem test = launched(problem(dropout), Operands::tf32);
    EXPECT_EQ(failing(test, Products::tf32), "");
    EXPECT_EQ(failing(test, Products::storage), "o lse dq dk dv");
  }
}

TEST_P(Tf32Kernel, AnExactOnePassesBoth) {
  TestProblem test = launched(problem(), Operands::as_they_are);
  EXPECT_EQ(failing(test, Products::storage), "");
  EXPECT_EQ(failing(test, Products::tf32), "");
}

// The kernel rounds q after it was multiplied with softmax_scale, the twin before.
TEST_P(Tf32Kernel, PassesWithScaledQueries) {
  TestProblem test = launched(problem(), Operands::tf32, 3, true);
  EXPECT_EQ(failing(test, Products::tf32), "");
}

TEST_P(Tf32Kernel, FactorsInBf16Fail) {
  TestProblem test = launched(problem(), Operands::bf16);
  EXPECT_EQ(failing(test, Products::tf32), "o lse dq dk dv");
}

INSTANTIATE_TEST_SUITE_P(Sizes, Tf32Kernel,
                         testing::Values(Size{64, 64}, Size{64, 256}, Size{64, 1024}, Size{128, 64},
                                         Size{128, 256}, Size{128, 1024}),
                         [](const auto& instance) {
                           return "d" + std::to_string(instance.param.head_dim) + "_sk" +
                                  std::to_string(instance.param.seqlen_k);
                         });

// With one key the twin's dS is exactly 0; a kernel's is what rounding dO for dP, and not for
// delta, leaves.
TEST(Tf32, PassesOneKey) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TestProblem test = launched({.seqlen_q = 64, .head_dim = 32}, Operands::tf32, seed);
    EXPECT_EQ(failing(test, Products::tf32), "");
  }
}

// A score that is one product needs all that rounding can do to it at worst.
TEST(Tf32, LseOfOneProductNeedsItsBound) {
  double largest = 0.0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    TestProblem test = launched({.seqlen_q = 200, .head_dim = 1}, Operands::tf32, seed);
    const Verdict lse = judge(test, Products::tf32).at(1);
    EXPECT_TRUE(lse.pass) << lse.message;
    largest = std::max(largest, lse.ratio_to_twin);
  }
  EXPECT_GT(largest, 0.75);
}

// The share is twice the twin's largest error relative to score_bound, and what few rows may hide.
constexpr double kWorst = 0x1p-10 + 0x1p-22;
double expected_share(const RowReference& rows) {
  double largest = 0.0, count = 0.0;
  for (Eigen::Index i = 0; i < rows.lse.size(); ++i) {
    if (std::isinf(rows.lse(i))) continue;
    const double error = static_cast<double>(rows.lse_twin(i)) - rows.lse(i);
    largest = std::max(largest, std::abs(error) / static_cast<double>(rows.score_bound(i)));
    count += 1.0;
  }
  return 2.0 * largest + kWorst / count;
}

TEST(Tf32, LseJustAboveItsBound) {
  TestProblem test = launched({.seqlen_q = 50, .seqlen_k = 20, .head_dim = 16}, Operands::tf32);
  EXPECT_EQ(lse_share(references_of(test, Products::storage)), 0.0);
  const References references = references_of(test, Products::tf32);
  const RowReference& rows = references.rows.at(0);
  const double share = expected_share(rows);
  EXPECT_EQ(lse_share(references), share);
  EXPECT_LT(share, 0.5 * kWorst);
  const auto size = static_cast<double>(rows.score_bound(6));
  const double bound = 0x1p-19 * (1.0 + size) + share * size;
  for (const double times : {0.99, 1.01}) {
    test.lse_at(0, 0, 6) = static_cast<float>(rows.lse(6) + times * bound);
    const Verdict lse = judge(test.problem, test.tensors(), references).at(1);
    EXPECT_EQ(lse.pass, times < 1.0) << lse.message;
  }
}

// They say nothing of how scores are rounded: of these 90 rows 10 do.
TEST(Tf32, RowsThatSeeNothing) {
  TestProblem test =
      launched({.seqlen_q = 90, .seqlen_k = 10, .head_dim = 64, .mask = parse_mask("causal")},
               Operands::tf32);
  EXPECT_EQ(failing(test, Products::tf32), "");
  const References references = references_of(test, Products::tf32);
  EXPECT_EQ(lse_share(references), expected_share(references.rows.at(0)));
  EXPECT_LT(lse_share(references), kWorst);
}

TEST(Tf32, FaultsAreStillFound) {
  const struct {
    Fault fault;
    const char* tensors;
  } faults[] = {{Fault::none, ""},
                {Fault::dq_tile_missing, "dq"},
                {Fault::last_rows_missing, "dk dv"},
                {Fault::delta_missing, "dq dk"},
                {Fault::last_key_dropped, "o lse dq dk dv"}};
  for (const auto& [fault, tensors] : faults) {
    TestProblem test = launched({.seqlen_q = 100, .seqlen_k = 130}, Operands::tf32);
    if (fault == Fault::last_key_dropped) run_forward(test, fault);
    run_backward(test, fault);
    EXPECT_EQ(failing(test, Products::tf32), tensors) << "fault " << static_cast<int>(fault);
  }
}

TEST(Tf32, IsOfF32Alone) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    TestProblem test({.dtype = dtype, .seqlen_q = 3, .seqlen_k = 3});
    EXPECT_THROW(references_of(test, Products::tf32), std::invalid_argument);
  }
}

TEST(Tf32, ReferencesSayWhichProductsTheyAreOf) {
  TestProblem test = launched({.seqlen_q = 3, .seqlen_k = 3, .head_dim = 8}, Operands::tf32);
  EXPECT_EQ(references_of(test, Products::storage).products, Products::storage);
  EXPECT_EQ(references_of(test, Products::tf32).products, Products::tf32);
}

}  // namespace
}  // namespace attnlab::reference
