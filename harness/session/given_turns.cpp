#include "harness/session/given_turns.h"

#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "harness/base/output.h"
#include "harness/run/context.h"

namespace attnlab {
namespace {

constexpr std::array kSteps = {
    std::pair(TurnStep::check_timer, "check timer"), std::pair(TurnStep::warm_up, "warm up"),
    std::pair(TurnStep::sample, "sample"), std::pair(TurnStep::leave, "leave")};

}  // namespace

std::string turn_greeting() {
  return nlohmann::ordered_json{{"turns", kTurnProtocol}, {"begins", true}}.dump();
}

std::string to_line(const TurnRequest& request) {
  nlohmann::ordered_json json = {
      {"turns", kTurnProtocol}, {"case", request.case_id}, {"round", request.round}};
  for (const auto& [step, word] : kSteps) {
    if (step == request.step) json["step"] = word;
  }
  return json.dump();
}

TurnRequest parse_turn_request(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_object() && json.value("turns", nlohmann::json()) == kTurnProtocol &&
      json.contains("case") && json["case"].is_string() && json.contains("round") &&
      json["round"].is_number_integer()) {
    for (const auto& [step, word] : kSteps) {
      if (json.value("step", nlohmann::json()) == word) {
        return {.case_id = json["case"], .step = step, .round = json["round"]};
      }
    }
  }
  constexpr std::size_t kShown = 80;
  throw std::runtime_error("'" + line.substr(0, kShown) + "' asks for no turn");
}

GivenTurns::GivenTurns(std::FILE* requests, std::FILE* answers)
    : requests_(requests), answers_(answers) {
  print_to(requests_, "{}\n", turn_greeting());
  std::fflush(requests_);
}

void GivenTurns::wait(const std::string& case_id, TurnStep step, int round) {
  print_to(requests_, "{}\n", to_line({.case_id = case_id, .step = step, .round = round}));
  std::fflush(requests_);
  for (int c = 0; c != '\n';) {
    c = std::fgetc(answers_);
    if (c == EOF) throw Interrupted();
  }
}

}  // namespace attnlab
