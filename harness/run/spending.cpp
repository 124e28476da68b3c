#include "harness/run/spending.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace attnlab {

std::string describe(const Spending& spending) {
  std::vector<std::string> parts;
  const auto add = [&](const char* what, double seconds) {
    if (seconds >= 0.05) parts.push_back(fmt::format("{} {:.1f} s", what, seconds));
  };
  add("inputs", spending.inputs);
  add("references", spending.references);
  add("verification", spending.verification);
  add("verification of peers", spending.peers);
  add("watch of outputs between samples", spending.watch);
  add("timing", spending.timing);
  add("counters, evidence and energy", spending.observation);
  return parts.empty() ? "" : fmt::format("Spent: {}.", fmt::join(parts, ", "));
}

}  // namespace attnlab
