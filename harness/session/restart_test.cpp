#include "harness/session/restart.h"

#include <gtest/gtest.h>

namespace attnlab {
namespace {

using Words = std::vector<std::string>;

TEST(Restart, GoesOnWithTheRecords) {
  EXPECT_EQ(arguments_to_resume({"attnlab", "run", "s.json", "--rounds", "3"}, "r.jsonl"),
            (Words{"attnlab", "run", "s.json", "--rounds", "3", "--resume", "r.jsonl"}));
}

TEST(Restart, ReplacesTheRecordsThatWereNamed) {
  const Words expected = {"attnlab", "run", "--heads", "4", "--resume", "r.jsonl"};
  for (const Words& named : {Words{"--out", "r.jsonl"}, Words{"--out=r.jsonl"},
                             Words{"--resume", "r.jsonl"}, Words{"--resume=r.jsonl"}}) {
    Words given = {"attnlab", "run"};
    given.insert(given.end(), named.begin(), named.end());
    given.insert(given.end(), {"--heads", "4"});
    EXPECT_EQ(arguments_to_resume(given, "r.jsonl"), expected) << named.front();
  }
}

}  // namespace
}  // namespace attnlab
