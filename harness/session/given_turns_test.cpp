#include "harness/session/given_turns.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <string>

#include "harness/run/context.h"

namespace attnlab {
namespace {

TEST(TurnRequests, AreReadAsTheyWereWritten) {
  for (const TurnStep step :
       {TurnStep::check_timer, TurnStep::warm_up, TurnStep::sample, TurnStep::leave}) {
    const TurnRequest read =
        parse_turn_request(to_line({.case_id = "fwd/\"x\"", .step = step, .round = 7}));
    EXPECT_EQ(read.case_id, "fwd/\"x\"");
    EXPECT_EQ(read.step, step);
    EXPECT_EQ(read.round, 7);
  }
}

TEST(TurnRequests, OtherLinesAreRefused) {
  for (const char* line :
       {"", "go", "[]", R"({"turns": 2, "case": "a", "step": "sample", "round": 1})",
        R"({"turns": 1, "case": 3, "step": "sample", "round": 1})",
        R"({"turns": 1, "case": "a", "step": "sample"})",
        R"({"turns": 1, "case": "a", "round": 1})", R"({"turns": 1, "begins": true})",
        R"({"turns": 1, "case": "a", "step": "samples", "round": 1})"}) {
    EXPECT_THROW(parse_turn_request(line), std::runtime_error) << line;
  }
}

class GivenTurnsTest : public testing::Test {
 protected:
  GivenTurnsTest() {
    EXPECT_EQ(pipe(requests_.data()), 0);
    EXPECT_EQ(pipe(answers_.data()), 0);
    out_ = fdopen(requests_[1], "w");
    in_ = fdopen(answers_[0], "r");
  }
  ~GivenTurnsTest() override {
    std::fclose(out_);
    std::fclose(in_);
    close(requests_[0]);
    if (answers_[1] >= 0) close(answers_[1]);
  }
  void answer(const std::string& text) const {
    EXPECT_EQ(write(answers_[1], text.data(), text.size()), std::ssize(text));
  }
  void end_answers() {
    close(answers_[1]);
    answers_[1] = -1;
  }
  std::string requested() const {
    std::array<char, 1000> text{};
    const ssize_t count = read(requests_[0], text.data(), text.size());
    return {text.data(), static_cast<std::size_t>(count)};
  }

  std::FILE* out_ = nullptr;
  std::FILE* in_ = nullptr;

 private:
  std::array<int, 2> requests_{}, answers_{};
};

TEST_F(GivenTurnsTest, AskFirstAndWaitForALine) {
  GivenTurns turns(out_, in_);
  EXPECT_EQ(requested(), turn_greeting() + "\n");
  answer("go\n");
  turns.wait("fwd/a", TurnStep::sample, 3);
  EXPECT_EQ(requested(),
            to_line({.case_id = "fwd/a", .step = TurnStep::sample, .round = 3}) + "\n");
}

TEST_F(GivenTurnsTest, WithoutAnswersTheRunEnds) {
  GivenTurns turns(out_, in_);
  answer("g");
  end_answers();
  EXPECT_THROW(turns.wait("fwd/a", TurnStep::sample, 1), Interrupted);
}

}  // namespace
}  // namespace attnlab
