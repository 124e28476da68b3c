#include "harness/cli_verbs.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/test_support.h"

namespace attnlab {
namespace {

int exit_code_of(const std::vector<const char*>& statuses) {
  std::vector<nlohmann::ordered_json> records;
  for (const char* status : statuses) records.push_back({{"status", status}});
  return exit_code(records);
}

TEST(CliVerbs, ExitCodes) {
  EXPECT_EQ(exit_code_of({"ok", "unsupported", "skipped", "out_of_memory"}), 0);
  EXPECT_EQ(exit_code_of({"ok", "failed", "invalid"}), 1);
  EXPECT_EQ(exit_code_of({"ok", "invalid"}), 3);
  EXPECT_EQ(exit_code_of({"unsupported", "skipped", "out_of_memory"}), 3);
  EXPECT_EQ(exit_code_of({}), 3);
}

TEST(CliVerbs, ChooseDevice) {
  const std::vector<Device> devices = {{.backend = Backend::cuda, .name = "gpu"},
                                       {.backend = Backend::cpu, .name = "cpu"}};
  EXPECT_EQ(choose_device(BackendChoice::automatic, devices).name, "gpu");
  EXPECT_EQ(choose_device(BackendChoice::cpu, devices).name, "cpu");
  const Device none = choose_device(BackendChoice::cuda, {devices[1]});
  EXPECT_EQ(none.name, "");
  EXPECT_EQ(none.backend, Backend::cuda);
  EXPECT_EQ(describe(none), "no cuda device");
}

}  // namespace
}  // namespace attnlab
