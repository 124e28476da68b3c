#include "harness/session/run_sweep.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace attnlab {
namespace {

int exit_code_of(const std::vector<const char*>& statuses) {
  std::vector<nlohmann::ordered_json> records;
  for (const char* status : statuses) records.push_back({{"status", status}});
  return exit_code(records);
}

TEST(RunSweep, ExitCodes) {
  EXPECT_EQ(exit_code_of({"ok", "unsupported", "skipped", "out_of_memory"}), 0);
  EXPECT_EQ(exit_code_of({"ok", "failed", "invalid"}), 1);
  EXPECT_EQ(exit_code_of({"ok", "invalid"}), 3);
  EXPECT_EQ(exit_code_of({"unsupported", "skipped", "out_of_memory"}), 3);
  EXPECT_EQ(exit_code_of({}), 3);
}

}  // namespace
}  // namespace attnlab
