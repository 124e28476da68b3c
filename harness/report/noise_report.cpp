#include "harness/report/noise_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr NoiseOf kKinds[] = {NoiseOf::turns, NoiseOf::processes, NoiseOf::sessions};
constexpr Regime kRegimes[] = {Regime::burst, Regime::settled};

// Calls take(regime, size, kind, level) for all that was measured.
template <class Take>
void for_each_level(const std::vector<NoiseSession>& sessions, const Take& take) {
  for (const Regime regime : kRegimes) {
    for (int size = 0; size <= std::ssize(kSizeBounds); ++size) {
      for (const NoiseOf kind : kKinds) {
        const auto level = noise_level(sessions, kind, regime, size);
        if (level) take(regime, size, kind, *level);
      }
    }
  }
}

}  // namespace

std::string render_noise(const std::vector<NoiseSession>& sessions, TableFormat format) {
  if (format == TableFormat::json) {
    Json levels = Json::array();
    for_each_level(sessions, [&](Regime regime, int size, NoiseOf kind, const NoiseLevel& level) {
      levels.push_back({{"regime", to_string(regime)},
                        {"launches", describe_size_class(size)},
                        {"kind", to_string(kind)},
                        {"share", level.share},
                        {"seconds", level.seconds},
                        {"pairs", level.pairs}});
    });
    return Json{{"schema", "attnlab.noise_levels/1"},
                {"sessions", sessions.size()},
                {"levels", std::move(levels)}}
               .dump(1) +
           "\n";
  }
  TextTable table;
  for (const char* title : {"regime", "launches", "noise"}) {
    table.columns.push_back({.title = title, .left = true, .key = true});
  }
  for (const char* title : {"95 % within", "in us", "pairs", "counts from"}) {
    table.columns.push_back({.title = title});
  }
  for_each_level(sessions, [&](Regime regime, int size, NoiseOf kind, const NoiseLevel& level) {
    table.rows.push_back({{to_string(regime)},
                          {describe_size_class(size)},
                          {to_string(kind)},
                          {fmt::format("{:.2f} %", 100.0 * level.share)},
                          {fmt::format("{:.2f}", 1e6 * level.seconds)},
                          {std::to_string(level.pairs)},
                          {level.pairs < kFewestNoisePairs
                               ? "too few pairs"
                               : fmt::format("{:.2f} %", 100.0 * threshold_share(level.share))}});
  });
  switch (format) {
    case TableFormat::csv: return render_csv(table);
    case TableFormat::markdown: return render_markdown(table);
    default: return render_plain(table);
  }
}

}  // namespace attnlab
