// A run that attnlab gate starts asks for turns on its standard output, and gets them on its
// standard input, a line each.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "harness/measure/turns.h"

namespace attnlab {

inline constexpr int kTurnProtocol = 1;

// Returns the first line of a run, which asks for nothing.
std::string turn_greeting();

// Says what a run asks for. to_line() writes it as a line of JSON.
struct TurnRequest {
  std::string case_id;  // group_id(); "": none yet
  TurnStep step = TurnStep::check_timer;
  int round = 0;  // of samples
};
std::string to_line(const TurnRequest& request);
// Reads such a line. Throws std::runtime_error for one that is no request.
TurnRequest parse_turn_request(const std::string& line);

class GivenTurns : public DeviceTurns {
 public:
  // Greets. Both streams must outlive the object.
  GivenTurns(std::FILE* requests, std::FILE* answers);
  // Throws Interrupted at the end of the answers.
  void wait(const std::string& case_id, TurnStep step, int round) override;

 private:
  std::FILE* requests_;
  std::FILE* answers_;
};

}  // namespace attnlab
