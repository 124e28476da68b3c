#include "harness/base/suggest.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

TEST(Suggest, FindsOneEdit) {
  const std::vector<std::string> known = {"seqlen", "seqlen_q", "head_dim", "mask"};
  EXPECT_EQ(nearest("seqlne", known), "seqlen");
  EXPECT_EQ(nearest("hed_dim", known), "head_dim");
  EXPECT_EQ(nearest("masks", known), "mask");
  EXPECT_EQ(nearest("dropout", known), "");
}

TEST(Suggest, DoesNotReplaceEveryLetter) { EXPECT_EQ(nearest("ab", {"xy"}), ""); }

TEST(Suggest, ALongNameIsNoSlip) {
  EXPECT_EQ(nearest(std::string(65, 'a'), {std::string(64, 'a')}), "");
  EXPECT_NE(nearest(std::string(64, 'a'), {std::string(63, 'a')}), "");
}

TEST(Suggest, ListsAllWhereNothingIsNear) {
  EXPECT_EQ(suggestion("mas", {"mask", "seed"}), "; did you mean 'mask'?");
  EXPECT_EQ(suggestion("something", {"mask", "seed"}), "; there are: mask, seed");
}

}  // namespace
}  // namespace attnlab
