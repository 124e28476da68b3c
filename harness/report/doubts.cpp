#include "harness/report/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace attnlab {
namespace {

constexpr double kFirm = 2.0;  // percent to a side
constexpr char kMark = '~';

// " (4 of 30)", "" where all rounds were taken. Older records do not say what was asked for.
std::string missing_rounds(const RecordJson& record) {
  const RecordJson taken = at(record, {"time", "n"});
  const RecordJson asked = at(record, {"time", "rounds_asked"});
  if (!taken.is_number() || !asked.is_number() || taken >= asked) return "";
  return fmt::format(" ({} of {})", exact(taken), exact(asked));
}

}  // namespace

std::vector<TextCell> Doubts::cells(const std::vector<const Field*>& values,
                                    const RecordJson& record) {
  std::string rounds = missing_rounds(record);
  std::vector<TextCell> cells;
  for (const Field* field : values) {
    const RecordJson value = field->read(record);
    TextCell& cell = cells.emplace_back(TextCell{display(*field, value)});
    if (field->interval == nullptr || value.is_null()) continue;
    is_short_ |= !rounds.empty();
    cell.text += std::exchange(rounds, "");
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
  if (is_short_) {
    text +=
        wrap("(n of N): n of N rounds; then the time limit (run --max-seconds) ended the timing.");
  }
  return text;
}

}  // namespace attnlab
