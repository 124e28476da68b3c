#include "harness/session/listed_points.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/base/errors.h"
#include "kernels/api/registry.h"
#include "tests/test_folder.h"

namespace attnlab {
namespace {

class ListedPoints : public testing::Test {
 protected:
  ListedPoints() { context_.device = &device_; }

  // Returns a sweep of one point, whose kernel was left the choice and took `block_m` rows a tile.
  static std::vector<Case> chosen(std::int64_t block_m) {
    const Implementation* v2 = builtin_registry().find("v2", Backend::cpu);
    Competitor competitor = {.kernel = "v2", .implementation = v2, .config = default_config(*v2)};
    competitor.asked = competitor.config;
    competitor.asked.set("block_m", 0);
    competitor.config.set("block_m", block_m);
    return {{.problem = {.seqlen_q = 64, .seqlen_k = 64}, .competitors = {competitor}}};
  }

  std::size_t listed(const std::vector<Case>& cases, const std::string& line) const {
    const std::filesystem::path list = folder_.path() / "list";
    std::ofstream(list) << line << "\n";
    return only_listed(cases, context_, list).size();
  }

  const TestFolder folder_;
  const Device device_;
  RunContext context_;
};

// The head lists points by what was asked for, because a base may choose another tile.
TEST_F(ListedPoints, AreFoundByWhatWasChosenAndByWhatWasAskedFor) {
  const std::vector<Case> head = chosen(64), base = chosen(128);
  const std::string own = planned_keys(head, context_).at(0);
  const std::string asked = asked_keys(head, context_).at(0);
  EXPECT_NE(own, asked);
  EXPECT_EQ(asked, asked_keys(base, context_).at(0));
  EXPECT_EQ(listed(head, own), 1u);
  EXPECT_EQ(listed(head, asked), 1u);
  EXPECT_EQ(listed(base, asked), 1u);
  EXPECT_THROW(listed(base, own), UsageError);
}

}  // namespace
}  // namespace attnlab
