#include "harness/report/best_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/base/text_table.h"
#include "harness/record/record_json.h"
#include "harness/report/fields.h"

namespace attnlab {
namespace {

// Returns all that tells one problem from another but the layout, and how it was measured.
std::string point_of(const RecordJson& record) {
  RecordJson problem = at(record, {"problem"});
  if (problem.is_object() && problem.value("layout", "") != "packed") problem.erase("layout");
  std::string text = problem.dump() + exact(find_field("cache", "").read(record));
  for (const char* key : {"input_kind", "seed", "backend"}) text += at(record, {key}).dump();
  text += at(record, {"protocol", "regime"}).dump() + at(record, {"input_file", "fnv1a"}).dump();
  return text + device_key(record);
}

// Takes the config as asked for: what a kernel chose itself may differ from layout to layout.
std::string competitor_of(const RecordJson& record) {
  const RecordJson asked = at(record, {"config_asked"});
  return at(record, {"kernel"}).dump() +
         (asked.is_object() ? asked : at(record, {"config"})).dump();
}

RecordJson median_of(const RecordJson& record) { return at(record, {"time", "median_s"}); }

bool is_faster(const RecordJson& a, const RecordJson& b) {
  if (!median_of(a).is_number()) return !median_of(b).is_number();
  return !median_of(b).is_number() || median_of(a).get<double>() < median_of(b).get<double>();
}

}  // namespace

std::vector<RecordJson> keep_best_layouts(const std::vector<RecordJson>& records) {
  std::vector<RecordJson> kept;
  std::map<std::string, std::size_t> places;
  for (const RecordJson& record : last_of_each_point(records)) {
    const std::string point = point_of(record);
    const auto [place, is_new] = places.emplace(point + competitor_of(record), kept.size());
    if (is_new) {
      kept.push_back(record);
      kept.back()[kBestLayoutKey] = {
          {"point", point}, {"timed", RecordJson::array()}, {"refused", RecordJson::object()}};
    }
    RecordJson& best = kept[place->second];
    RecordJson& found = best[kBestLayoutKey];
    const std::string layout = exact(at(record, {"problem", "layout"}));
    if (median_of(record).is_number()) {
      found["timed"].push_back(layout);
    } else {
      found["refused"][layout] = at(record, {"status"});
    }
    if (is_new || !is_faster(record, best)) continue;
    RecordJson all = std::move(found);
    best = record;
    best[kBestLayoutKey] = std::move(all);
  }
  return kept;
}

bool are_best_layouts(const std::vector<RecordJson>& records) {
  return !records.empty() && records.front().contains(kBestLayoutKey);
}

std::string best_layout_note(const std::vector<RecordJson>& records) {
  if (!are_best_layouts(records)) return "";
  std::size_t timed = 0, single = 0;
  std::map<std::string, std::size_t> refused;  // by layout and status
  for (const RecordJson& record : records) {
    const std::size_t layouts = at(record, {kBestLayoutKey, "timed"}).size();
    timed += layouts > 0 ? 1 : 0;
    single += layouts == 1 ? 1 : 0;
    if (layouts == 0) continue;
    const RecordJson others = at(record, {kBestLayoutKey, "refused"});
    for (const auto& [layout, status] : others.items()) ++refused[layout + " " + exact(status)];
  }
  std::string text =
      "Each competitor in the layout in which it is faster, which stands beside its time.";
  if (single > 0) {
    text += fmt::format(" Of {} of the {} only one layout has a time.", single,
                        count_of(timed, "timed point"));
  }
  for (const auto& [what, points] : refused) {
    text += fmt::format(" {} in {}.", what, count_of(points, "point"));
  }
  return wrap(text);
}

}  // namespace attnlab
