#include "harness/report/sampling.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/report/fields.h"

namespace attnlab {
namespace {

std::string describe(const RecordJson& verdict) {
  const std::string tensor = at(verdict, {"tensor"}).get<std::string>();
  const char* const what = tensor == "dk" || tensor == "dv" ? "keys" : "rows";
  const RecordJson compared = at(verdict, {"compared"});
  const RecordJson rows = at(verdict, {"rows"});
  if (compared.is_number() && rows.is_number()) {
    return fmt::format("{} of {} {} of {}", exact(compared), exact(rows), what, tensor);
  }
  return fmt::format("{:.2g} % of the {} of {}", 100.0 * at(verdict, {"coverage"}).get<double>(),
                     what, tensor);
}

// Returns the verdict with the smallest coverage below 1 of those on drawn heads, or on samples.
std::optional<Sampled> least_of(const RecordJson& record, bool whole_heads) {
  std::optional<Sampled> least;
  for (const char* when : {"verify", "verify_timed"}) {
    const RecordJson verdicts = at(record, {when});
    if (!verdicts.is_array()) continue;
    for (const RecordJson& verdict : verdicts) {
      const RecordJson coverage = at(verdict, {"coverage"});
      if (!coverage.is_number() || coverage >= 1.0) continue;
      if ((at(verdict, {"whole_heads"}) == true) != whole_heads) continue;
      if (least && least->coverage <= coverage.get<double>()) continue;
      least = {.coverage = coverage.get<double>(), .text = describe(verdict)};
    }
  }
  return least;
}

}  // namespace

std::optional<Sampled> sampled_of(const RecordJson& record) { return least_of(record, false); }

std::optional<Sampled> drawn_of(const RecordJson& record) { return least_of(record, true); }

std::optional<double> drift_of(const RecordJson& record) {
  for (const char* when : {"verify", "verify_timed"}) {
    const RecordJson verdicts = at(record, {when});
    if (!verdicts.is_array()) continue;
    for (const RecordJson& verdict : verdicts) {
      const RecordJson drift = at(verdict, {"drift"});
      if (drift.is_number()) return drift.get<double>();
    }
  }
  return std::nullopt;
}

}  // namespace attnlab
