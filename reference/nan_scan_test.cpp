#include "reference/nan_scan.h"

#include <gtest/gtest.h>

#include <limits>

#include "reference/oracle.h"
#include "reference/test_kernel.h"
#include "reference/test_support.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Problem make_problem(Dtype dtype, Layout layout) {
  Problem problem = {.dtype = dtype,
                     .batch = 2,
                     .num_heads_q = 4,
                     .num_heads_kv = 2,
                     .seqlen_q = 6,
                     .seqlen_k = 9,
                     .head_dim = 5};
  problem.layout = layout;
  if (layout == Layout::packed) {
    problem.lengths = {
        .kind = LengthsKind::packed, .given = true, .queries = {3, 6}, .keys = {9, 4}};
  }
  return problem;
}

void clear(TestProblem& test) {
  const Problem& problem = test.problem;
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    for (std::int64_t h = 0; h < problem.num_heads_q; ++h) {
      for (std::int64_t r = 0; r < problem.queries(b); ++r) {
        test.lse_at(b, h, r) = -std::numeric_limits<float>::infinity();
        for (std::int64_t d = 0; d < problem.head_dim; ++d) test.o.set(b, h, r, d, 0.0f);
      }
    }
    for (std::int64_t h = 0; h < problem.num_heads_kv; ++h) {
      for (std::int64_t r = 0; r < test.rows_of_k(b); ++r) {
        for (std::int64_t d = 0; d < problem.head_dim; ++d) test.dk.set(b, h, r, d, 0.0f);
      }
    }
  }
}

class NanScan : public testing::TestWithParam<std::tuple<Dtype, Layout>> {
 protected:
  NanScan() { clear(test_); }
  std::string in_o() { return find_nan(test_.problem, "o", Side::query, test_.o.data()); }
  std::string in_dk() { return find_nan(test_.problem, "dk", Side::key, test_.dk.data()); }
  std::string in_lse() { return find_nan_in_lse(test_.problem, test_.lse.data()); }

  TestProblem test_{make_problem(std::get<0>(GetParam()), std::get<1>(GetParam()))};
};

INSTANTIATE_TEST_SUITE_P(All, NanScan,
                         testing::Combine(testing::Values(Dtype::f32, Dtype::f16, Dtype::bf16),
                                          testing::Values(Layout::bshd, Layout::bhsd,
                                                          Layout::packed)));

TEST_P(NanScan, FindsAnyOneElement) {
  EXPECT_EQ(in_o(), "");
  test_.o.set(1, 3, 5, 4, kNaN);  // the very last
  EXPECT_NE(in_o().find("o: 1 of "), std::string::npos) << in_o();
  EXPECT_NE(in_o().find("the first at batch 1 head 3 row 5 column 4"), std::string::npos) << in_o();
  test_.o.set(0, 0, 0, 0, -kNaN);
  EXPECT_NE(in_o().find("o: 2 of "), std::string::npos) << in_o();
  EXPECT_NE(in_o().find("the first at batch 0 head 0 row 0 column 0"), std::string::npos);
  EXPECT_EQ(in_dk(), "");
  test_.dk.set(1, 1, 3, 2, kNaN);
  EXPECT_NE(in_dk().find("dk: 1 of "), std::string::npos) << in_dk();
  EXPECT_NE(in_dk().find("batch 1 head 1 row 3 column 2"), std::string::npos) << in_dk();
}

TEST_P(NanScan, InfinityIsNone) {
  test_.o.set(0, 1, 2, 3, std::numeric_limits<float>::infinity());
  test_.o.set(0, 1, 2, 4, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(in_o(), "");
  EXPECT_EQ(in_lse(), "") << "of rows that see nothing; a packed entry's missing rows are NaN";
  test_.lse_at(1, 2, 5) = kNaN;
  EXPECT_NE(in_lse().find("lse: 1 of "), std::string::npos) << in_lse();
  EXPECT_NE(in_lse().find("batch 1 head 2 row 5 column 0"), std::string::npos) << in_lse();
}

// A test plants NaN in each row in turn: it is found where nothing is compared, too.
TEST(Judge, SeesNaNInRowsThatAreNotCompared) {
  TestProblem test(
      {.num_heads_q = 2, .num_heads_kv = 2, .seqlen_q = 300, .seqlen_k = 40, .head_dim = 8});
  test.fill_normal(4);
  run_forward(test, Fault::none);
  const Samples samples = choose_samples(test.problem, 2 * 300 * 40 * 8 / 20, 0);
  const References references = make_references(test.problem, test.tensors(), samples, 1);
  for (const Verdict& verdict : judge(test.problem, test.tensors(), references)) {
    EXPECT_TRUE(verdict.pass) << verdict.message;
    EXPECT_LT(verdict.coverage, 0.5);
  }
  for (std::int64_t row = 0; row < 300; ++row) {
    const float was = test.o.get(0, 1, row, 7), lse = test.lse_at(0, 1, row);
    test.o.set(0, 1, row, 7, kNaN);
    test.lse_at(0, 1, row) = kNaN;
    for (const Verdict& verdict : judge(test.problem, test.tensors(), references)) {
      EXPECT_FALSE(verdict.pass) << verdict.tensor << " of row " << row;
    }
    test.o.set(0, 1, row, 7, was);
    test.lse_at(0, 1, row) = lse;
  }
}

}  // namespace
}  // namespace attnlab::reference
