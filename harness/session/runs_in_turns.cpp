#include "harness/session/runs_in_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <utility>

#include "harness/base/child_process.h"
#include "harness/run/context.h"

namespace attnlab {
namespace {

constexpr double kGraceSeconds = 5.0;

// Holds one run, and what it asks for.
class Side {
 public:
  Side(const TurnRun& run, const TurnOptions& options) : run_(run), options_(options) {
    try {
      child_ = std::make_unique<ChildProcess>(run.command);
    } catch (const std::system_error& error) {
      throw std::runtime_error(fmt::format("{}: cannot start {}: {}", run.name, run.command.at(0),
                                           error.code().message()));
    }
  }

  // Reads the greeting, and what it asks for first.
  void begin() {
    std::string line;
    if (!read_line(line)) return;
    if (line != turn_greeting()) refuse(line);
    ending_.began = true;
    read();
  }
  bool has_ended() const { return !asked_; }
  const TurnRequest& asked() const { return *asked_; }

  // Lets it do what it asked for, and returns when it has: when it asks for the next turn.
  void go() {
    options_.before(run_, *asked_);
    child_->write_line("go");
    read();
  }

  const RunEnding& ending() const { return ending_; }

 private:
  // Reads what it asks for next; nothing at its end.
  void read() {
    asked_.reset();
    std::string line;
    if (!read_line(line)) return;
    try {
      asked_ = parse_turn_request(line);
    } catch (const std::runtime_error&) {
      refuse(line);
    }
  }

  // Returns false at its end.
  bool read_line(std::string& line) {
    for (double waited = 0.0; waited < options_.timeout_s; waited += 1.0) {
      if (options_.interrupted()) throw Interrupted();
      switch (child_->read_line(1.0, line)) {
        case ChildProcess::Outcome::timeout: continue;
        case ChildProcess::Outcome::line: return true;
        case ChildProcess::Outcome::end: end(kGraceSeconds); return false;
      }
    }
    end(0.0);
    ending_.how = fmt::format("did nothing for {:g} s and was ended", options_.timeout_s);
    return false;
  }

  [[noreturn]] void refuse(const std::string& line) const {
    constexpr std::size_t kShown = 80;
    throw std::runtime_error(fmt::format(
        "{}: {} said '{}', which asks for no turn: is it an attnlab of another version?", run_.name,
        run_.command.at(0), line.substr(0, kShown)));
  }

  void end(double grace_s) {
    ending_.how = child_->end(grace_s);
    ending_.errors = child_->errors();
  }

  const TurnRun& run_;
  const TurnOptions& options_;
  std::unique_ptr<ChildProcess> child_;
  std::optional<TurnRequest> asked_;
  RunEnding ending_;
};

// Returns where a run is. A case that the sweep does not know comes first, since nobody waits for
// it.
auto place_of(const TurnRequest& request, const std::vector<std::string>& case_ids) {
  const auto found = std::ranges::find(case_ids, request.case_id);
  const auto place = found == case_ids.end() ? -1 : found - case_ids.begin();
  return std::tuple(place, request.step, request.round);
}

// Draws in which order the runs go: for every other round of samples; the round after it has the
// reverse order. Draws another order for the remaining steps of each case: the process that leaves
// a case first also prepares and allocates the next one first, and times depend on that. The
// timer's check, which precedes all cases, counts as a case.
class Order {
 public:
  Order(std::uint64_t seed, std::size_t runs) : random_(seed), samples_(runs), prepares_(runs) {
    std::iota(samples_.begin(), samples_.end(), std::size_t{0});
    std::iota(prepares_.begin(), prepares_.end(), std::size_t{0});
  }

  // Returns the place of each run.
  const std::vector<std::size_t>& of(const TurnRequest& asked) {
    if (asked.step != TurnStep::sample) {
      if (asked.case_id != case_id_) draw(prepares_);
      case_id_ = asked.case_id;
      return prepares_;
    }
    is_reversed_ = !is_reversed_;
    if (is_reversed_) {
      for (std::size_t& place : samples_) place = samples_.size() - 1 - place;
    } else {
      draw(samples_);
    }
    return samples_;
  }

 private:
  void draw(std::vector<std::size_t>& places) { std::ranges::shuffle(places, random_); }

  std::mt19937_64 random_;
  std::vector<std::size_t> samples_, prepares_;
  bool is_reversed_ = true;
  std::optional<std::string> case_id_;
};

// Returns the runs that are furthest behind, of those that ask for something; none at the end.
std::vector<std::size_t> furthest_behind(const std::vector<std::unique_ptr<Side>>& sides,
                                         const std::vector<std::string>& case_ids) {
  std::vector<std::size_t> behind;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (sides[i]->has_ended()) continue;
    if (!behind.empty()) {
      const auto own = place_of(sides[i]->asked(), case_ids);
      const auto least = place_of(sides[behind.front()]->asked(), case_ids);
      if (own > least) continue;
      if (own < least) behind.clear();
    }
    behind.push_back(i);
  }
  return behind;
}

}  // namespace

std::vector<RunEnding> take_turns(const std::vector<TurnRun>& runs, const TurnOptions& options) {
  std::vector<std::unique_ptr<Side>> sides;
  for (const TurnRun& run : runs) sides.push_back(std::make_unique<Side>(run, options));
  for (const auto& side : sides) side->begin();
  const bool all_began =
      std::ranges::all_of(sides, [](const auto& side) { return side->ending().began; });
  Order order(options.seed, sides.size());
  while (all_began) {
    std::vector<std::size_t> asking = furthest_behind(sides, options.case_ids);
    if (asking.empty()) break;
    if (asking.size() > 1) {
      const std::vector<std::size_t>& places = order.of(sides[asking.front()]->asked());
      std::ranges::sort(asking, {}, [&](std::size_t i) { return places[i]; });
    }
    for (const std::size_t i : asking) sides[i]->go();
  }
  std::vector<RunEnding> endings;
  for (const auto& side : sides) endings.push_back(side->ending());
  return endings;
}

}  // namespace attnlab
