#include "harness/session/listed_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "harness/base/errors.h"
#include "harness/record/record_json.h"

namespace attnlab {

namespace {

nlohmann::ordered_json planned(const Case& work, const Competitor& competitor,
                               const RunContext& context) {
  return to_json(planned_record(work, competitor, context));
}

template <typename KeyOf>
std::vector<std::string> keys_of(const std::vector<Case>& cases, const RunContext& context,
                                 KeyOf key_of) {
  std::vector<std::string> keys;
  for (const Case& work : cases) {
    for (const Competitor& competitor : work.competitors) {
      keys.push_back(key_of(planned(work, competitor, context)));
    }
  }
  return keys;
}

}  // namespace

std::vector<std::string> planned_keys(const std::vector<Case>& cases, const RunContext& context) {
  return keys_of(cases, context, record_key);
}

std::vector<std::string> asked_keys(const std::vector<Case>& cases, const RunContext& context) {
  return keys_of(cases, context, asked_key);
}

std::vector<Case> only_listed(const std::vector<Case>& cases, const RunContext& context,
                              const std::filesystem::path& file) {
  std::set<std::string> listed;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) listed.insert(line);
  std::vector<Case> kept = cases;
  for (Case& work : kept) {
    std::erase_if(work.competitors, [&](const Competitor& competitor) {
      const nlohmann::ordered_json record = planned(work, competitor, context);
      return !listed.contains(record_key(record)) && !listed.contains(asked_key(record));
    });
  }
  std::erase_if(kept, [](const Case& work) { return work.competitors.empty(); });
  if (kept.empty()) {
    throw UsageError(fmt::format(
        "{}: lists no point of this sweep: its lines are keys of points, as records have them in "
        "'key'",
        file.string()));
  }
  return kept;
}

}  // namespace attnlab
