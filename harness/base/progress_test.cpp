#include "harness/base/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <utility>

namespace attnlab {
namespace {

std::string run_into_file(double total) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    Progress progress(file.get(), total);
    progress.begin("first");
    progress.phase("verify");
    progress.advance(1.0);
    progress.begin("second");
    progress.line("second: failed");
    progress.advance(3.0);
    progress.finish();
  }
  std::string text(10000, '\0');
  std::rewind(file.get());
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

// The time left depends on the machine.
std::string without_time(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(\d+:\d\d left)"), "T left");
}

TEST(Progress, PlainLinesWhereThereIsNoTerminal) {
  EXPECT_EQ(without_time(run_into_file(4.0)),
            "  0%  -:-- left  first\n 25%  T left  second\nsecond: failed\n");
}

// What the first of many launches takes says little of the others.
TEST(Progress, NoTimeLeftIsGuessedFromTheFirstPercent) {
  const std::string text = run_into_file(1000.0);
  EXPECT_EQ(text, "  0%  -:-- left  first\n  0%  -:-- left  second\nsecond: failed\n");
}

TEST(Progress, NothingToDoIsAllDone) {
  EXPECT_NE(run_into_file(0.0).find("100%"), std::string::npos);
}

// A pseudo-terminal of a given width; what is written to stream() can be read back.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    unsetenv("COLUMNS");
    winsize size{.ws_row = 24, .ws_col = columns};
    int slave = -1;
    if (openpty(&master_, &slave, nullptr, nullptr, &size) != 0) return;
    EXPECT_EQ(fcntl(master_, F_SETFL, O_NONBLOCK), 0);
    stream_ = fdopen(slave, "w");
  }
  ~Terminal() {
    if (!exists()) return;
    std::fclose(stream_);
    close(master_);
  }
  // False where the system has no pseudo-terminals (a container without /dev/pts).
  bool exists() const { return stream_ != nullptr; }
  std::FILE* stream() const { return stream_; }
  std::string read_all() const {
    std::string text;
    char chunk[4096];
    for (ssize_t count; (count = read(master_, chunk, sizeof chunk)) > 0;) {
      text.append(chunk, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int master_ = -1;
  std::FILE* stream_ = nullptr;
};

const std::string kClear = "\r\x1b[K";

TEST(Progress, OneLineIsRedrawnAndClearedOnATerminal) {
  const Terminal terminal(90);
  if (!terminal.exists()) GTEST_SKIP() << "no pseudo-terminals here";
  Progress progress(terminal.stream(), 2.0);
  progress.begin("point");
  EXPECT_EQ(terminal.read_all(), "\r[------------]   0%  -:-- left  0 done  point\x1b[K");
  progress.advance(1.0);
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  terminal.read_all();
  progress.phase("time 3/9");
  EXPECT_EQ(without_time(terminal.read_all()),
            "\r[######------]  50%  T left  0 done  time 3/9  point\x1b[K");
  progress.line("warning");
  EXPECT_EQ(terminal.read_all(), kClear + "warning\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  progress.begin("next");
  EXPECT_NE(terminal.read_all().find("1 done  next"), std::string::npos);
  progress.finish();
  EXPECT_EQ(terminal.read_all(), kClear);
  progress.finish();
  EXPECT_EQ(terminal.read_all(), "") << "once";
}

TEST(Progress, WhatIsLeftOutIsNotPartOfTheTotal) {
  const Terminal terminal(90);
  if (!terminal.exists()) GTEST_SKIP() << "no pseudo-terminals here";
  Progress progress(terminal.stream(), 4.0);
  progress.begin("compile 4 units");
  progress.leave_out(2.0, "compile 2 units");
  EXPECT_TRUE(terminal.read_all().ends_with("  0%  -:-- left  0 done  compile 2 units\x1b[K"));
  progress.advance(1.0);
  progress.begin("compiled 1 of 2");
  EXPECT_EQ(without_time(terminal.read_all()),
            "\r[######------]  50%  T left  1 done  compiled 1 of 2\x1b[K");
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  const Terminal terminal(90);
  if (!terminal.exists()) GTEST_SKIP() << "no pseudo-terminals here";
  Progress progress(terminal.stream(), 1.0);
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{};
  while (elapsed.count() < 0.25) {
    progress.phase("verify");
    elapsed = std::chrono::steady_clock::now() - start;
  }
  const std::string text = terminal.read_all();
  const auto draws = std::count(text.begin(), text.end(), '\r');
  EXPECT_GE(draws, 2);
  EXPECT_LE(static_cast<double>(draws), 1.0 + elapsed.count() / 0.1);
}

TEST(Progress, LinesAreCutToTheTerminal) {
  for (const auto& [columns, length] :
       {std::pair<unsigned short, std::size_t>{40, 39}, {100, 99}, {300, 99}, {0, 79}}) {
    const Terminal terminal(columns);
    if (!terminal.exists()) GTEST_SKIP() << "no pseudo-terminals here";
    Progress progress(terminal.stream(), 1.0);
    progress.begin(std::string(400, 'x'));
    const std::string text = terminal.read_all();
    EXPECT_EQ(text.size(), 1 + length + 3) << columns;
    EXPECT_TRUE(text.ends_with("\x1b[K"));
  }
}

TEST(Progress, TheDestructorClears) {
  const Terminal terminal(90);
  if (!terminal.exists()) GTEST_SKIP() << "no pseudo-terminals here";
  { Progress(terminal.stream(), 1.0).begin("point"); }
  EXPECT_TRUE(terminal.read_all().ends_with(kClear));
}

}  // namespace
}  // namespace attnlab
