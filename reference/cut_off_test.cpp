#include "reference/cut_off.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference/oracle.h"
#include "reference/tolerance.h"

namespace attnlab::reference {
namespace {

// There are one row and one key of 32 columns. The first product is 448 * 448, at 2^17 with 16 as
// its last bit, and the other 31 are 15 each: a tensor core loses all of them. All scales are 1.
class Outlier : public testing::Test {
 protected:
  Outlier() {
    problem_.dtype = Dtype::e4m3;
    problem_.head_dim = 32;
    problem_.softmax_scale = 0x1p-12;
    problem_.quantisation = {.qk = ScaleOf::tensor, .v = ScaleOf::tensor, .rotate = false};
    q_.assign(32, 3.75f);
    k_.assign(32, 4.0f);
    v_.assign(32, 448.0f);
    q_[0] = k_[0] = 448.0f;
  }

  Tensors inputs() const {
    Tensors tensors;
    tensors.q = q_.data(), tensors.k = k_.data(), tensors.v = v_.data();
    return tensors;
  }

  CutOff cut_off() const {
    return {problem_, std::make_shared<const JudgedInputs>(problem_, inputs())};
  }

  // These are the score, and so lse, as it is, and as a tensor core makes it.
  double lse() const { return problem_.scale() * (448.0 * 448.0 + 31.0 * 15.0); }
  double cut_lse() const { return problem_.scale() * 448.0 * 448.0; }

  Verdict verdict_on(double got) const {
    const Samples samples = {.rows = {{.rows = {0}}}};
    const auto lse = static_cast<float>(got);
    return judge_lse(problem_, &lse, make_references(problem_, inputs(), samples, 1));
  }

  Problem problem_;
  std::vector<float> q_, k_, v_;
};

TEST_F(Outlier, LosesItsSmallProductsAndAUnitOfTheSum) {
  const double most = problem_.scale() * (31.0 * 15.0 + 16.0);
  EXPECT_NEAR(cut_off().of_lse(0, 0, 0, lse()), most, 1e-9);
}

TEST_F(Outlier, WhatATensorCoreMakesOfItPasses) {
  const double usual = lse_bound_of_e4m3(problem_, lse());
  ASSERT_GT(lse() - cut_lse(), 2.0 * usual) << "the usual bound alone refuses it";
  EXPECT_EQ(verdict_on(cut_lse()).message, "");
  EXPECT_EQ(verdict_on(lse()).message, "");
}

TEST_F(Outlier, MoreThanItsOwnBoundFails) {
  const double own = problem_.scale() * (31.0 * 15.0 + 16.0) + lse_bound(lse(), 0.0);
  EXPECT_EQ(verdict_on(lse() - 0.99 * own).message, "");
  EXPECT_EQ(verdict_on(lse() + 0.99 * own).message, "");
  EXPECT_EQ(verdict_on(lse() - 1.01 * own).failed_bound, "max");
  EXPECT_EQ(verdict_on(lse() + 1.01 * own).failed_bound, "max");
  EXPECT_FALSE(verdict_on(std::numeric_limits<double>::quiet_NaN()).pass);
  EXPECT_FALSE(verdict_on(-std::numeric_limits<double>::infinity()).pass);
}

// Products of one size lose nothing but the last bits of their sums, and the usual bound stands.
TEST_F(Outlier, WithoutItNothingIsGivenAway) {
  q_[0] = 3.75f, k_[0] = 4.0f;
  problem_.softmax_scale = 1.0;
  const double score = 32.0 * 15.0;
  const double unit = 0x1p9 * 15.0 / (448.0 * 448.0);  // of a sum at 2^22, in units of the codes
  EXPECT_NEAR(cut_off().of_lse(0, 0, 0, score), unit, 1e-4);
  EXPECT_EQ(verdict_on(score + 1.01 * lse_bound_of_e4m3(problem_, score)).failed_bound, "max");
}

// A key that the row hardly sees, or not at all, gives nothing away.
TEST_F(Outlier, CountsByTheProbabilityOfItsKey) {
  problem_.seqlen_k = 2;
  k_.resize(64, 0.0f);  // one key more, whose score is 0
  v_.resize(64, 448.0f);
  k_[0] = -448.0f;  // so the first key's is -49
  EXPECT_LT(cut_off().of_lse(0, 0, 0, std::log1p(std::exp(-lse()))), 1e-20);
  k_[0] = 448.0f;
  problem_.mask = parse_mask("window:0:0");  // the row sees the last key alone
  EXPECT_EQ(cut_off().of_lse(0, 0, 0, 0.0), 0.0);
}

}  // namespace
}  // namespace attnlab::reference
