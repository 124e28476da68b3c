#include "harness/report/gate_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/text_table.h"
#include "harness/record/beyond.h"
#include "harness/record/record_json.h"

namespace attnlab {
namespace {

// Returns the number behind a key, which begins at 0; keys stay in the order of their first call.
std::size_t& count_of_key(std::vector<std::pair<std::string, std::size_t>>& counts,
                          const std::string& key) {
  const auto found = std::ranges::find(counts, key, &std::pair<std::string, std::size_t>::first);
  if (found != counts.end()) return found->second;
  return counts.emplace_back(key, 0).second;
}

std::string why_unseen(const RecordJson& record) {
  const RecordJson reason = at(record, {"evidence", "reason"});
  const bool says_it = reason.is_string() && !reason.get<std::string>().empty();
  return says_it ? reason.get<std::string>() : "the record does not say";
}

}  // namespace

SideKernels kernels_of_side(const std::string& side, const std::vector<RecordJson>& records) {
  SideKernels kernels = {.side = side};
  std::vector<std::pair<std::string, std::size_t>> unseen;
  for (const RecordJson& record : records) {
    if (!launches_beyond(record)) {
      if (record.at("status") == "ok") ++count_of_key(unseen, why_unseen(record));
      continue;
    }
    std::string launches = beyond_text(record);
    if (launches.empty()) continue;
    kernels.beyond.push_back({.key = record_key(record),
                              .kernel = record.at("kernel").get<std::string>(),
                              .launches = std::move(launches)});
  }
  for (const auto& [reason, points] : unseen) {
    kernels.unseen.push_back({.reason = reason, .points = points});
  }
  return kernels;
}

std::string describe(const std::vector<SideKernels>& sides) {
  std::string text;
  std::vector<std::pair<std::string, std::string>> unseen;  // a reason, and whose points
  for (const SideKernels& side : sides) {
    std::vector<std::pair<std::string, std::size_t>> counts;
    for (const BeyondPoint& point : side.beyond) {
      ++count_of_key(counts, fmt::format("{}: {}", point.kernel, point.launches));
    }
    std::string list;
    for (const auto& [what, points] : counts) {
      list += fmt::format("{}{} ({})", list.empty() ? "" : "; ", what, count_of(points, "point"));
    }
    if (!list.empty()) {
      text += wrap(fmt::format("The {} ran what operations do not need, and times hold it: {}.",
                               side.side, list));
    }
    for (const auto& [reason, points] : side.unseen) {
      const std::string whose = fmt::format("{} of the {}", count_of(points, "point"), side.side);
      const auto found =
          std::ranges::find(unseen, reason, &std::pair<std::string, std::string>::first);
      if (found == unseen.end()) {
        unseen.emplace_back(reason, whose);
      } else {
        found->second += " and " + whose;
      }
    }
  }
  for (const auto& [reason, whose] : unseen) {
    text += wrap(
        fmt::format("Nobody saw whether copies, casts or fills beyond the operation ran in {}: {}.",
                    whose, reason));
  }
  return text;
}

nlohmann::ordered_json beyond_json(const std::vector<SideKernels>& sides) {
  auto json = nlohmann::ordered_json::array();
  for (const SideKernels& side : sides) {
    for (const BeyondPoint& point : side.beyond) {
      json.push_back({{"side", side.side},
                      {"key", point.key},
                      {"kernel", point.kernel},
                      {"launches", point.launches}});
    }
  }
  return json;
}

nlohmann::ordered_json unseen_json(const std::vector<SideKernels>& sides) {
  auto json = nlohmann::ordered_json::array();
  for (const SideKernels& side : sides) {
    for (const auto& [reason, points] : side.unseen) {
      json.push_back({{"side", side.side}, {"points", points}, {"reason", reason}});
    }
  }
  return json;
}

}  // namespace attnlab
