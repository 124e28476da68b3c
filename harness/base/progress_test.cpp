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
#include <string>
#include <utility>

namespace attnlab {
namespace {

using namespace std::chrono_literals;

// A clock stands still here unless the test lets time pass.
class SetClock {
 public:
  void pass(std::chrono::milliseconds time) { now_ += time; }
  Progress::Clock read() {
    return [this] { return now_; };
  }

 private:
  Progress::Time now_ = std::chrono::steady_clock::now();
};

std::string run_into_file(double total) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    SetClock clock;
    Progress progress(file.get(), total, clock.read());
    progress.begin("first");
    progress.phase("verify");
    clock.pass(20s);
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

TEST(Progress, PlainLinesWhereThereIsNoTerminal) {
  EXPECT_EQ(run_into_file(4.0),
            "  0%  -:-- left  first\n 25%  1:00 left  second\nsecond: failed\n");
}

// The first of many launches says little of the time that the others take.
TEST(Progress, NoTimeLeftIsGuessedFromTheFirstPercent) {
  const std::string text = run_into_file(1000.0);
  EXPECT_EQ(text, "  0%  -:-- left  first\n  0%  -:-- left  second\nsecond: failed\n");
}

TEST(Progress, NothingToDoIsAllDone) {
  EXPECT_NE(run_into_file(0.0).find("100%"), std::string::npos);
}

// Opens a pseudo-terminal of a given width; what is written to stream() can be read back.
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
  // Returns false where the system has no pseudo-terminals (a container without /dev/pts).
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
  SetClock clock;
  Progress progress(terminal.stream(), 2.0, clock.read());
  progress.begin("point");
  EXPECT_EQ(terminal.read_all(), "\r[------------]   0%  -:-- left  0 done  point\x1b[K");
  progress.advance(1.0);
  EXPECT_EQ(terminal.read_all(), "") << "not due";
  clock.pass(5s);
  progress.phase("time 3/9");
  EXPECT_EQ(terminal.read_all(), "\r[######------]  50%  0:05 left  0 done  time 3/9  point\x1b[K");
  progress.line("warning");
  EXPECT_EQ(terminal.read_all(), kClear + "warning\r\n");
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
  SetClock clock;
  Progress progress(terminal.stream(), 4.0, clock.read());
  progress.begin("compile 4 units");
  progress.leave_out(2.0, "compile 2 units");
  EXPECT_TRUE(terminal.read_all().ends_with("  0%  -:-- left  0 done  compile 2 units\x1b[K"));
  clock.pass(90ms);
  progress.advance(1.0);
  clock.pass(3910ms);
  progress.begin("compiled 1 of 2");
  EXPECT_EQ(terminal.read_all(), "\r[######------]  50%  0:04 left  1 done  compiled 1 of 2\x1b[K");
}

TEST(Progress, RedrawsAtMostTenTimesASecond) {
  const Terminal terminal(90);
  if (!terminal.exists()) GTEST_SKIP() << "no pseudo-terminals here";
  SetClock clock;
  Progress progress(terminal.stream(), 1.0, clock.read());
  progress.phase("verify");
  const auto draws_in = [&](std::chrono::milliseconds time) {
    for (std::chrono::milliseconds passed = 0ms; passed < time; passed += 1ms) {
      clock.pass(1ms);
      progress.phase("verify");
    }
    const std::string text = terminal.read_all();
    return std::count(text.begin(), text.end(), '\r');
  };
  terminal.read_all();
  EXPECT_EQ(draws_in(99ms), 0);
  EXPECT_EQ(draws_in(1ms), 1);
  EXPECT_EQ(draws_in(1000ms), 10);
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
