#include "harness/base/build_info.h"

#include <gtest/gtest.h>

#include <string>

namespace attnlab {
namespace {

TEST(BuildInfo, SaysWhatTheBinaryIs) {
  const BuildInfo& build = build_info();
  EXPECT_NE(std::string(build.version).find('.'), std::string::npos);
  const std::string commit = build.commit;
  EXPECT_TRUE(commit == "unknown" || commit.substr(0, commit.find('-')).size() == 12) << commit;
  EXPECT_NE(std::string(build.compiler), "");
  EXPECT_NE(std::string(build.flags), "");
}

}  // namespace
}  // namespace attnlab
