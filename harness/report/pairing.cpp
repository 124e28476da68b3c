#include "harness/report/pairing.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/record/record_json.h"

namespace attnlab {
namespace {

using Side = std::map<std::string, const RecordJson*>;

// Returns what tells burst and settled times apart, which keys of records do not.
std::string regime_of(const RecordJson& record) {
  const RecordJson regime = at(record, {"protocol", "regime"});
  return "/" + (regime.is_string() ? regime.get<std::string>() : "burst");  // older records
}

std::string point_key(const RecordJson& record) { return record_key(record) + regime_of(record); }

std::string status_of(const RecordJson& record) { return record.at("status").get<std::string>(); }

bool was_tried(const RecordJson& record) {
  return status_of(record) != "skipped" && status_of(record) != "unsupported";
}

Side by_point(const std::vector<RecordJson>& records, std::map<std::string, std::string>& twice) {
  std::map<std::string, std::vector<const RecordJson*>> all;
  for (const RecordJson& record : records) all[point_key(record)].push_back(&record);
  Side side;
  for (auto& [key, own] : all) {
    std::vector<const RecordJson*> tried;
    std::ranges::copy_if(own, std::back_inserter(tried),
                         [](const RecordJson* record) { return was_tried(*record); });
    if (tried.size() <= 1) {
      side[key] = tried.empty() ? own.back() : tried.front();
      continue;
    }
    std::string& statuses = twice[key];
    for (const RecordJson* record : tried) {
      statuses += (statuses.empty() ? "" : ", ") + status_of(*record);
    }
  }
  return side;
}

// Names the point as it was asked for, without what its kernel chose.
std::string asked_point_key(const RecordJson& record) {
  return asked_key(record) + regime_of(record);
}

// Names the point without any config: older records do not say what was asked for.
std::string open_key(const RecordJson& record) {
  RecordJson open = record;
  open["config"] = RecordJson::object();
  return point_key(open);
}

// Returns whether both kernels were left the same choice, as far as older records tell. Records
// have null where the config is as it was asked for.
bool left_the_same_choice(const RecordJson& a, const RecordJson& b) {
  const RecordJson left = at(a, {"config_asked"}), right = at(b, {"config_asked"});
  if (left.is_object() && right.is_object()) return left == right;
  return (left.is_object() && !b.contains("config_asked")) ||
         (right.is_object() && !a.contains("config_asked"));
}

using KeyOf = std::string (*)(const RecordJson& record);

std::map<std::string, std::vector<Side::iterator>> places_by(Side& side, KeyOf key_of) {
  std::map<std::string, std::vector<Side::iterator>> places;
  for (auto place = side.begin(); place != side.end(); ++place) {
    places[key_of(*place->second)].push_back(place);
  }
  return places;
}

// Takes from both sides what has the same key.
void take_equal(Side& base, Side& now, std::vector<Pair>& pairs) {
  for (auto place = base.begin(); place != base.end();) {
    const auto partner = now.find(place->first);
    if (partner == now.end()) {
      ++place;
      continue;
    }
    pairs.push_back({place->first, place->second, partner->second});
    now.erase(partner);
    place = base.erase(place);
  }
}

// Takes from both sides the points that differ in what was chosen, where only one can be meant.
void take_chosen(Side& base, Side& now, KeyOf key_of, std::vector<Pair>& pairs) {
  const auto left = places_by(base, key_of), right = places_by(now, key_of);
  for (const auto& [key, own] : left) {
    const auto others = right.find(key);
    const bool unique = others != right.end() && own.size() == 1 && others->second.size() == 1;
    if (!unique) continue;
    const Side::iterator before = own.front(), after = others->second.front();
    if (!left_the_same_choice(*before->second, *after->second)) continue;
    pairs.push_back({before->first, before->second, after->second});
    base.erase(before);
    now.erase(after);
  }
}

}  // namespace

Pairing pair_records(const std::vector<RecordJson>& base, const std::vector<RecordJson>& now) {
  std::map<std::string, std::string> twice;
  Side before = by_point(base, twice), after = by_point(now, twice);
  for (const auto& [key, statuses] : twice) {
    before.erase(key);
    after.erase(key);
  }
  Pairing pairing;
  take_equal(before, after, pairing.pairs);
  take_chosen(before, after, asked_point_key, pairing.pairs);
  take_chosen(before, after, open_key, pairing.pairs);
  for (const auto& [key, record] : before) pairing.missing.push_back({key, status_of(*record)});
  for (const auto& [key, record] : after) pairing.extra.push_back({key, status_of(*record)});
  for (const auto& [key, statuses] : twice) pairing.duplicates.push_back({key, statuses});
  return pairing;
}

}  // namespace attnlab
