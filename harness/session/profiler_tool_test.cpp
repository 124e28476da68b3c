#include "harness/session/profiler_tool.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Words = std::vector<std::string>;

const ProfilerRun kRun = {.metrics = {"a.sum", "b.sum"},
                          .report = "out/r",
                          .program = {"attnlab", "run", "--profile", "1"}};

TEST(ProfilerTool, NcuLooksAtOneLaunchAtTheClocksThatAre) {
  EXPECT_EQ(profiler_command("/opt/ncu", kRun), (Words{"/opt/ncu",
                                                       "--target-processes",
                                                       "application-only",
                                                       "--profile-from-start",
                                                       "off",
                                                       "--nvtx",
                                                       "--nvtx-include",
                                                       "attnlab@profile/",
                                                       "--clock-control",
                                                       "none",
                                                       "--cache-control",
                                                       "none",
                                                       "--section",
                                                       "WarpStateStats",
                                                       "--metrics",
                                                       "a.sum,b.sum",
                                                       "--export",
                                                       "out/r",
                                                       "--force-overwrite",
                                                       "attnlab",
                                                       "run",
                                                       "--profile",
                                                       "1"}));
}

TEST(ProfilerTool, ColdIsEmptyCaches) {
  ProfilerRun cold = kRun;
  cold.cache = CacheState::cold;
  const Words words = profiler_command("ncu", cold);
  const auto flag = std::ranges::find(words, "--cache-control");
  ASSERT_NE(flag, words.end());
  EXPECT_EQ(*(flag + 1), "all");
}

TEST(ProfilerTool, NsysWatchesTheSameLaunches) {
  ProfilerRun run = kRun;
  run.tool = ProfilerTool::nsys;
  EXPECT_EQ(profiler_command("nsys", run), (Words{"nsys",
                                                  "profile",
                                                  "--trace",
                                                  "cuda,nvtx,cublas",
                                                  "--sample",
                                                  "none",
                                                  "--cpuctxsw",
                                                  "none",
                                                  "--capture-range",
                                                  "cudaProfilerApi",
                                                  "--capture-range-end",
                                                  "repeat",
                                                  "--output",
                                                  "out/r",
                                                  "--force-overwrite",
                                                  "true",
                                                  "attnlab",
                                                  "run",
                                                  "--profile",
                                                  "1"}));
}

// Takes a flag and its value out of a command.
void remove_flag(Words& words, const std::string& flag) {
  const auto found = std::ranges::find(words, flag);
  ASSERT_NE(found, words.end()) << flag;
  words.erase(found, found + 2);
}

TEST(ProfilerTool, FlagsOfTheUserReplaceOurs) {
  ProfilerRun run = kRun;
  run.extra = {"--cache-control=all", "--metrics", "c.sum", "--set", "full"};
  Words expected = profiler_command("ncu", kRun);
  remove_flag(expected, "--cache-control");
  remove_flag(expected, "--metrics");
  expected.insert(std::ranges::find(expected, "attnlab"), run.extra.begin(), run.extra.end());
  EXPECT_EQ(profiler_command("ncu", run), expected);
}

TEST(ProfilerTool, OthersAreRefused) {
  EXPECT_EQ(parse_tool("nsys"), ProfilerTool::nsys);
  EXPECT_EQ(usage_error([] { parse_tool("nvprof"); }).substr(0, 32),
            "--tool: 'nvprof' is neither ncu ");
  EXPECT_NE(usage_error([] { read_profiler_report("no such file.csv"); }), "");
  EXPECT_EQ(usage_error([] { read_profiler_report("no such.ncu-rep"); }),
            "no such.ncu-rep: no such file");
}

}  // namespace
}  // namespace attnlab
