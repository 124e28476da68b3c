// The turns of a process that another one started, asked for and given in lines on its standard
// output and input: what attnlab gate and its runs say to one another.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "harness/measure/turns.h"

namespace attnlab {

inline constexpr int kTurnProtocol = 1;

// The first line of a run, which asks for nothing.
std::string turn_greeting();

// What a run asks for, and how it says so in a line of JSON.
struct TurnRequest {
  std::string case_id;  // group_id(); "": none yet
  TurnStep step = TurnStep::check_timer;
  int round = 0;  // of samples
};
std::string to_line(const TurnRequest& request);
// Throws std::runtime_error for a line that is no request.
TurnRequest parse_turn_request(const std::string& line);

class GivenTurns : public DeviceTurns {
 public:
  // Greets. Both streams outlive the object.
  GivenTurns(std::FILE* requests, std::FILE* answers);
  // Throws Interrupted at the end of the answers.
  void wait(const std::string& case_id, TurnStep step, int round) override;

 private:
  std::FILE* requests_;
  std::FILE* answers_;
};

}  // namespace attnlab
