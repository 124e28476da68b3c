#include "harness/report/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace attnlab {
namespace {

constexpr double kFirm = 2.0;  // percent to a side
constexpr char kMark = '~';
constexpr char kUnsettled = '!';

// Returns " (4 of 30)", "" if all rounds were taken. Older records do not say how many were asked.
std::string missing_rounds(const RecordJson& record) {
  const RecordJson taken = at(record, {"time", "n"});
  const RecordJson asked = at(record, {"time", "rounds_asked"});
  if (!taken.is_number() || !asked.is_number() || taken >= asked) return "";
  return fmt::format(" ({} of {})", exact(taken), exact(asked));
}

// Returns whether the clock moved under the value; for a speedup, also under its base.
bool did_not_settle(const Field& field, const RecordJson& record) {
  return at(record, {"time", "telemetry", "settled"}) == false ||
         (is_speedup(field) && at(record, {kSpeedupKey, "base_settled"}) == false);
}

}  // namespace

void Doubts::count(const RecordJson& record) {
  ++timed_;
  unsettled_ += at(record, {"time", "telemetry", "settled"}) == false ? 1 : 0;
  const RecordJson retries = at(record, {"time", "retries"});
  if (!retries.is_number() || retries == 0) return;
  ++retried_;
  retries_ += retries.get<double>();
}

void Doubts::Partial::count(const std::optional<Sampled>& sampled) {
  if (!sampled) return;
  ++points;
  if (points == 1 || sampled->coverage < least.coverage) least = *sampled;
}

void Doubts::count_partial(const RecordJson& record) {
  ++shown_;
  sampled_.count(sampled_of(record));
  drawn_.count(drawn_of(record));
  const std::optional<double> drift = drift_of(record);
  if (!drift) return;
  ++drifting_;
  drift_ = std::max(drift_, *drift);
}

std::vector<TextCell> Doubts::cells(const std::vector<const Field*>& values,
                                    const RecordJson& record) {
  std::string rounds = missing_rounds(record);
  std::vector<TextCell> cells;
  if (std::ranges::any_of(values, [&](const Field* field) { return field->interval != nullptr; })) {
    count(record);
  }
  count_partial(record);
  for (const Field* field : values) {
    const RecordJson value = field->read(record);
    TextCell& cell = cells.emplace_back(TextCell{display(*field, value)});
    if (field->interval == nullptr || value.is_null()) continue;
    is_short_ |= !rounds.empty();
    cell.text += std::exchange(rounds, "");
    if (did_not_settle(*field, record)) {
      cell.mark = kUnsettled;
      is_unsettled_ = true;
      continue;
    }
    const RecordJson interval = field->interval(record);
    if (interval.is_number()) {
      if (interval.get<double>() <= kFirm) continue;
      widest_ = std::max(widest_, interval.get<double>());
    }
    cell.mark = kMark;
    is_marked_ = true;
  }
  return cells;
}

std::string Doubts::text() const {
  std::string text;
  if (is_marked_) {
    const std::string widest =
        widest_ > 0.0 ? fmt::format("the widest is +-{:.2f} %", widest_) : "one sample has none";
    text += wrap(fmt::format("{} not firm: the 95 % interval of its median passes +-{:g} % ({}), "
                             "and smaller differences mean nothing. A quiet machine and more "
                             "rounds (run --rounds N) narrow it; --value time_ms,ci shows each.",
                             kMark, kFirm, widest),
                 2);
  }
  if (is_unsettled_) {
    text += wrap(
        fmt::format("{} {} of {} did not settle: the clock of more than a quarter of the "
                    "blocks of samples was over 5 % off, or in a settled run the time of "
                    "more than a quarter of the turns over 2 %, or the GPU rested in over a tenth "
                    "of a turn (--value at_work). Nothing should rest on a number that comes from "
                    "one; run --resume FILE --unsettled measures their cases again.",
                    kUnsettled, unsettled_, count_of(timed_, "point")),
        2);
  }
  if (retried_ > 0) {
    text +=
        wrap(fmt::format("The clock was started anew {:g} times within the samples of {}: the "
                         "GPU had begun before all launches were queued.",
                         retries_, count_of(retried_, "point")));
  }
  if (is_short_) {
    text +=
        wrap("(n of N): n of N rounds; then the time limit (run --max-seconds) ended the timing.");
  }
  const auto add_partial = [&](const char* how, const Partial& partial) {
    if (partial.points == 0) return;
    text += wrap(fmt::format("{}: {} at the least; {} of {} {} not compared whole.", how,
                             partial.least.text, partial.points, count_of(shown_, "point"),
                             partial.points == 1 ? "was" : "were"));
  };
  add_partial("sampled", sampled_);
  add_partial("whole heads drawn", drawn_);
  if (drifting_ > 0) {
    text += wrap(
        fmt::format("drift: o of {} of {} may lie up to {:.2g} % along the reference: sums of "
                    "e4m3 are not promoted there, as far as is known, and a tensor core keeps 13 "
                    "bits of them.",
                    drifting_, count_of(shown_, "point"), 100.0 * drift_));
  }
  return text;
}

}  // namespace attnlab
