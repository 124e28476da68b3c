#include "harness/run/tensor_flops.h"

#include <gtest/gtest.h>

#include <limits>

#include "harness/testing/fake_kernels.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

constexpr const char* kNoLibrary = nullptr;

class TensorFlops : public testing::Test {
 protected:
  TensorFlops() {
    record_.point.problem = {.dtype = Dtype::f16, .seqlen_q = 512, .seqlen_k = 512, .head_dim = 64};
    record_.point.competitors = {
        {.kernel = "own", .backend = Backend::cuda, .implementation = &fake::kOwn}};
    record_.flops = Flops{.useful = 500, .executed = 1000};
    record_.counted = Counted{.valid = true};
  }
  // Returns whether the counts are taken for the schedule's work; nothing if they cannot be judged.
  std::optional<bool> is_right(std::optional<double> wgmma, std::optional<double> mma_sync,
                               const char* library = kNoLibrary) {
    record_.counted->a_launch.wgmma_flops = wgmma;
    record_.counted->a_launch.mma_sync_flops = mma_sync;
    const std::optional<double> share = tensor_flops_of_executed(record_, library);
    if (!share) return std::nullopt;
    return wrong_tensor_flops(*share, record_.point.problem, library).empty();
  }

  Record record_;
};

TEST_F(TensorFlops, AgreeWithTheSchedule) {
  EXPECT_EQ(is_right(1000.0, 0.0), true);
  EXPECT_EQ(is_right(0.0, 1000.0), true);
  EXPECT_EQ(is_right(995.0, std::nullopt), true) << "its products are by wgmma";
  EXPECT_EQ(is_right(std::nullopt, 1005.0), true) << "a chip without wgmma";
}

TEST_F(TensorFlops, OthersAreNot) {
  EXPECT_EQ(is_right(0.0, 0.0), false) << "nothing was multiplied";
  EXPECT_EQ(is_right(0.0, 500.0), false) << "half of it";
  EXPECT_EQ(is_right(500.0, std::nullopt), false);
  EXPECT_EQ(is_right(0.0, 989.0), false);
  EXPECT_EQ(is_right(0.0, 1011.0), false);
  EXPECT_EQ(is_right(1000.0, 1000.0), false) << "twice";
  EXPECT_EQ(is_right(std::numeric_limits<double>::quiet_NaN(), 0.0), false);
  EXPECT_PRED2(contains, wrong_tensor_flops(0.5, record_.point.problem, kNoLibrary),
               "tensor cores did 50.00 % of the FLOPs that the schedule executes, and 99 to 101 %");
}

TEST_F(TensorFlops, WhatWasNotCountedIsNotJudged) {
  EXPECT_EQ(is_right(0.0, std::nullopt), std::nullopt) << "it may be mma.sync";
  EXPECT_EQ(is_right(1000.0, std::nullopt, "cuBLAS"), std::nullopt) << "a library has both";
  EXPECT_EQ(is_right(std::nullopt, std::nullopt), std::nullopt);
  record_.counted->valid = false;
  EXPECT_EQ(is_right(0.0, 500.0), std::nullopt);
  record_.counted->valid = true;
  record_.flops->executed.reset();
  EXPECT_EQ(is_right(0.0, 500.0), std::nullopt);
}

TEST_F(TensorFlops, ProductsOfF32AreNoTensorInstructionsUnlessTheyAreTf32) {
  record_.point.problem.dtype = Dtype::f32;
  EXPECT_EQ(is_right(0.0, 0.0), std::nullopt);
  Competitor& competitor = record_.point.competitors[0];
  competitor.implementation = &fake::kWithTf32;
  competitor.config.set("coarse", 1);
  EXPECT_EQ(is_right(0.0, 1000.0), true);
  EXPECT_EQ(is_right(0.0, 500.0), false);
}

TEST_F(TensorFlops, ALibraryMultipliesWholeTiles) {
  constexpr const char* kLibrary = "cuBLAS";
  EXPECT_EQ(is_right(0.0, 4000.0, kLibrary), true) << "head_dim 64 in a tile of 256";
  EXPECT_EQ(is_right(0.0, 4050.0, kLibrary), false);
  EXPECT_EQ(is_right(0.0, 980.0, kLibrary), false) << "never less";
  Problem& problem = record_.point.problem;
  problem.head_dim = 256;
  EXPECT_EQ(is_right(0.0, 1000.0, kLibrary), true);
  EXPECT_EQ(is_right(0.0, 1020.0, kLibrary), false);
  problem.seqlen_q = 300;
  EXPECT_EQ(is_right(0.0, 1700.0, kLibrary), true) << "512 rows for 300";
  EXPECT_EQ(is_right(0.0, 1750.0, kLibrary), false);
  problem.batch = 2;
  problem.layout = Layout::packed;
  problem.lengths = {
      .kind = LengthsKind::packed, .given = true, .queries = {256, 1}, .keys = {256, 1}};
  EXPECT_EQ(is_right(0.0, 2000.0, kLibrary), true);
  EXPECT_EQ(is_right(0.0, 2050.0, kLibrary), false);
}

}  // namespace
}  // namespace attnlab
