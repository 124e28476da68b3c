#include "kernels/cuda/causal_section.h"

#include <gtest/gtest.h>

namespace attnlab::cuda {
namespace {

// Returns the section of a problem that has more slices than any section.
i64 slices_of(i64 seqlen_k, i64 head_dim, i64 sharing = 1) {
  const Shape shape = {.batch = 1024,
                       .num_heads_q = 8 * sharing,
                       .num_heads_kv = 8,
                       .seqlen_q = seqlen_k,
                       .seqlen_k = seqlen_k,
                       .head_dim = head_dim};
  return causal_section(shape);
}

TEST(CausalSection, HasEightToThirtyTwoMebibytesOfKeysAndValues) {
  EXPECT_EQ(slices_of(256, 128), 64);   // of 128 KiB: 8 MiB
  EXPECT_EQ(slices_of(512, 128), 32);   // 8 MiB
  EXPECT_EQ(slices_of(1024, 128), 32);  // 16 MiB
  EXPECT_EQ(slices_of(2048, 128), 32);  // 32 MiB
  EXPECT_EQ(slices_of(8192, 128), 8);   // 32 MiB
  EXPECT_EQ(slices_of(512, 64), 64);
  EXPECT_EQ(slices_of(1 << 20, 256), 1) << "one is the least";
}

TEST(CausalSection, HasWholeGroupsOfHeadsAndNoMoreThanThereAre) {
  EXPECT_EQ(slices_of(2048, 128, 4), 128);
  Shape few = {.batch = 2,
               .num_heads_q = 3,
               .num_heads_kv = 3,
               .seqlen_q = 64,
               .seqlen_k = 64,
               .head_dim = 64};
  EXPECT_EQ(causal_section(few), 6);
}

}  // namespace
}  // namespace attnlab::cuda
