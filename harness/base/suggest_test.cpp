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

TEST(Suggest, OfManyNamesSomeAreNearest) {
  const std::vector<std::string> known = {"fa1-apex",   "fa2-fig5a", "fa1-table9",
                                          "fa1-table9", "fa2-fig5b", "all"};
  EXPECT_EQ(short_suggestion("fa1-tabel9", known), "; did you mean 'fa1-table9'?");
  EXPECT_EQ(short_suggestion("fig5", known), "; the nearest are: fa2-fig5a, fa2-fig5b, all");
  EXPECT_EQ(short_suggestion("", known), "; the nearest are: all, fa1-apex, fa2-fig5a");
  EXPECT_EQ(short_suggestion(std::string(100000, 'x'), {"b", "a"}), "; the nearest are: a, b");
}

}  // namespace
}  // namespace attnlab
