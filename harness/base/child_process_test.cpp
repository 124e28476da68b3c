#include "harness/base/child_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <system_error>

#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

using Outcome = ChildProcess::Outcome;

TEST(ChildProcess, AnswersLineByLine) {
  ChildProcess child({"cat"});
  std::string line;
  ASSERT_TRUE(child.write_line("one\ntwo"));
  ASSERT_EQ(child.read_line(10.0, line), Outcome::line);
  EXPECT_EQ(line, "one");
  ASSERT_EQ(child.read_line(10.0, line), Outcome::line);
  EXPECT_EQ(line, "two");
  EXPECT_EQ(child.read_line(0.05, line), Outcome::timeout);
  EXPECT_EQ(child.end(10.0), "exit status 0");  // its input ended
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnError) {
  try {
    ChildProcess child({"no-such-program-anywhere"});
    FAIL() << "it started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
  }
}

TEST(ChildProcess, ADeadOneIsSeenAndSaysWhy) {
  ChildProcess child({"sh", "-c", "echo half; echo boom >&2; exit 7"});
  std::string line;
  ASSERT_EQ(child.read_line(10.0, line), Outcome::line);
  ASSERT_EQ(child.read_line(10.0, line), Outcome::end);
  EXPECT_FALSE(child.write_line("anyone there?"));  // it raises no SIGPIPE
  EXPECT_EQ(child.end(10.0), "exit status 7");
  EXPECT_EQ(child.errors(), "boom\n");
}

TEST(ChildProcess, ErrorsNeverFillUpAndTheirEndIsKept) {
  ChildProcess child({"sh", "-c", "yes noise | head -n 100000 >&2; echo last >&2; echo done"});
  std::string line;
  ASSERT_EQ(child.read_line(30.0, line), Outcome::line);
  EXPECT_EQ(line, "done");
  child.end(10.0);
  EXPECT_LE(child.errors().size(), 4000u);
  EXPECT_TRUE(child.errors().ends_with("noise\nlast\n")) << child.errors();
}

TEST(ChildProcess, OneThatDoesNotGoIsKilledWithWhatItStarted) {
  ChildProcess child({"sh", "-c", "sleep 600 & echo $!; wait"});
  std::string line;
  ASSERT_EQ(child.read_line(10.0, line), Outcome::line);
  const int grandchild = std::stoi(line);
  EXPECT_EQ(child.end(0.0), "signal 9");
  // Its new parent must reap it: until then the process is still there, as a zombie.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const auto state = [&] {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name, letter = "gone";
    stat >> pid >> name >> letter;
    return letter;
  };
  while (state() != "gone" && state() != "Z" && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_TRUE(state() == "gone" || state() == "Z") << state();
}

TEST(ChildProcess, CtrlCDoesNotReachIt) {
  ChildProcess child({"sh", "-c", "cut -d' ' -f5 /proc/$$/stat; cat"});
  std::string line;
  ASSERT_EQ(child.read_line(10.0, line), Outcome::line);
  EXPECT_NE(std::stoi(line), getpgrp());
}

}  // namespace
}  // namespace attnlab
