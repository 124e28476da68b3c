#include "harness/base/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace attnlab {
namespace {

constexpr std::size_t kLongest = 64;  // a longer name is no slip, and its table would be large

// Returns the optimal string alignment distance.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = i + j;
        continue;
      }
      const std::size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  if (name.size() > kLongest) return "";
  std::string best;
  std::size_t fewest = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edits(name, candidate);
    if (distance < fewest && distance < std::max(name.size(), candidate.size())) {
      fewest = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string best = nearest(name, known);
  if (!best.empty()) return fmt::format("; did you mean '{}'?", best);
  return fmt::format("; there are: {}", fmt::join(known, ", "));
}

std::string short_suggestion(std::string_view name, std::vector<std::string> known) {
  if (const std::string best = nearest(name, known); !best.empty()) {
    return fmt::format("; did you mean '{}'?", best);
  }
  constexpr std::size_t kShown = 3;
  const std::string_view start = name.substr(0, kLongest);
  std::ranges::sort(known);  // names as near as others come in this order
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::ranges::stable_sort(known, {}, [&](const std::string& one) {
    return std::pair(!start.empty() && one.find(start) == std::string::npos, edits(start, one));
  });
  known.resize(std::min(known.size(), kShown));
  return fmt::format("; the nearest are: {}", fmt::join(known, ", "));
}

}  // namespace attnlab
