#include "kernels/cuda/launch.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/cuda/launch_attributes.h"

namespace attnlab::cuda {
namespace {

TEST(Launch, AsksForNothingBesideItsSizesByDefault) {
  EXPECT_EQ(attributes_of({.blocks = 6}).count, 0U);
}

TEST(Launch, AsksForClusters) {
  const LaunchAttributes attributes = attributes_of({.blocks = 6, .cluster_blocks = 2});
  ASSERT_EQ(attributes.count, 1U);
  EXPECT_EQ(attributes.list[0].id, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  EXPECT_EQ(attributes.list[0].value.clusterDim.x, 2U);
  EXPECT_EQ(attributes.list[0].value.clusterDim.y, 1U);
  EXPECT_EQ(attributes.list[0].value.clusterDim.z, 1U);
}

TEST(Launch, AsksForAnEarlyStart) {
  const LaunchAttributes attributes =
      attributes_of({.blocks = 6, .cluster_blocks = 2, .starts_early = true});
  ASSERT_EQ(attributes.count, 2U);
  EXPECT_EQ(attributes.list[1].id, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  EXPECT_EQ(attributes.list[1].value.programmaticStreamSerializationAllowed, 1);
}

// Returns what a launch of this grid is refused with; no driver is asked.
std::string refusal(const LaunchGrid& grid) {
  try {
    launch(nullptr, "forward", {.grid = grid, .threads = 32}, nullptr, nullptr);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Launch, RefusesGridsThatNoGpuHas) {
  EXPECT_EQ(refusal({.blocks = u64{1} << 31}),
            "launching forward: 2147483648 blocks are more than a grid can have; make batch, heads "
            "or seqlen_q smaller");
  for (const LaunchGrid& grid :
       {LaunchGrid{.blocks = 6, .cluster_blocks = 0}, LaunchGrid{.blocks = 6, .cluster_blocks = 4},
        LaunchGrid{.blocks = 32, .cluster_blocks = 16}}) {
    EXPECT_NE(refusal(grid).find("must be 1 to 8 and divide the grid"), std::string::npos)
        << grid.cluster_blocks << " of " << grid.blocks << ": " << refusal(grid);
  }
}

}  // namespace
}  // namespace attnlab::cuda
