#include "harness/run/reference_cache.h"

#include <gtest/gtest.h>

#include "harness/plan/case.h"
#include "harness/tensors/arena.h"
#include "harness/tensors/inputs.h"
#include "harness/testing/fake_kernels.h"

namespace attnlab {
namespace {

using reference::Products;

constexpr std::int64_t kNoLimit = std::int64_t{1} << 50;

TEST(ReferenceCache, ProductsAreThoseOfTheConfig) {
  const Implementation* const kernel = &fake::kWithTf32;
  const Config on = {{"coarse", 1}};
  EXPECT_EQ(products_of({}, nullptr, {}), Products::storage) << "a peer";
  EXPECT_EQ(products_of({}, &fake::kTiled, {{"tf32", 1}}), Products::storage) << "a name alone";
  EXPECT_EQ(products_of({}, kernel, {{"coarse", 0}}), Products::storage);
  EXPECT_EQ(products_of({}, kernel, on), Products::tf32);
  EXPECT_EQ(products_of({.dtype = Dtype::f16}, kernel, on), Products::storage);
  EXPECT_EQ(products_of({.dtype = Dtype::bf16}, kernel, on), Products::storage);
}

class Cache : public testing::Test {
 protected:
  ReferenceCache cache(double dropout) {
    problem_.dropout = dropout;
    inputs_.emplace(arena_, problem_, InputKind::normal, 4, 1);
    return {problem_, inputs_->host(), reference::choose_samples(problem_, kNoLimit, 1), 1};
  }

  Problem problem_ = {.seqlen_q = 12, .seqlen_k = 20, .head_dim = 8, .seed = 3};
  Arena arena_;
  std::optional<Inputs> inputs_;
};

TEST_F(Cache, MakesEachOnce) {
  ReferenceCache cache = this->cache(0.3);
  const auto& storage = cache.of(Products::storage);
  const auto& tf32 = cache.of(Products::tf32);
  const auto& without = cache.of(Products::storage, JudgedDropout::none);
  EXPECT_EQ(&cache.of(Products::storage), &storage);
  EXPECT_EQ(&cache.of(Products::tf32), &tf32);
  EXPECT_EQ(&cache.of(Products::storage, JudgedDropout::none), &without);
  EXPECT_NE(&storage, &tf32);
  EXPECT_NE(&storage, &without);
}

TEST_F(Cache, OtherSamplesHaveOtherReferences) {
  ReferenceCache cache = this->cache(0.0);
  const reference::Samples all = reference::choose_samples(problem_, kNoLimit, 2);
  const auto& made = cache.of(Products::storage);
  EXPECT_FALSE(cache.look_at(all)) << "all rows, whatever the seed";
  EXPECT_EQ(&cache.of(Products::storage), &made);
  const reference::Samples some = reference::choose_samples(problem_, 1, 2);
  ASSERT_TRUE(cache.look_at(some));
  EXPECT_EQ(cache.of(Products::storage).rows.at(0).sample.rows, some.rows.at(0).rows);
}

TEST_F(Cache, TheTwinIsOfTheProductsAndTheOracleOfNone) {
  ReferenceCache cache = this->cache(0.0);
  const auto& storage = cache.of(Products::storage);
  const auto& tf32 = cache.of(Products::tf32);
  EXPECT_EQ(tf32.products, Products::tf32);
  ASSERT_EQ(storage.rows.size(), 1u);
  EXPECT_TRUE(storage.rows[0].o.value == tf32.rows[0].o.value);
  EXPECT_FALSE(storage.rows[0].o.twin == tf32.rows[0].o.twin);
}

TEST_F(Cache, WithoutDropoutIsAnotherProblemOnlyWhereThereIsSome) {
  ReferenceCache with = cache(0.5);
  EXPECT_FALSE(with.of(Products::storage).rows.at(0).o.value ==
               with.of(Products::storage, JudgedDropout::none).rows.at(0).o.value);
  ReferenceCache none = cache(0.0);
  EXPECT_EQ(&none.of(Products::storage), &none.of(Products::storage, JudgedDropout::none));
}

}  // namespace
}  // namespace attnlab
