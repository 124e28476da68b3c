#include "harness/plan/sweep_cut.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/strict_json.h"
#include "harness/plan/axes.h"
#include "harness/plan/sweep_file.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;
using AxisValues = std::vector<std::pair<std::string, Json>>;

// Returns the values in canonical text.
std::vector<std::string> canonical(const AxisGrammar& grammar, const Json& values,
                                   const std::string& where) {
  Axes axes;
  grammar.set(axes, axis_text(values, where), where);
  return grammar.values(axes);
}

AxisValues read_values(const Json& json, const char* key, const AxisGrammars& grammars,
                       const std::string& where) {
  AxisValues values;
  if (!json.contains(key)) return values;
  const std::string place = fmt::format("{}.{}", where, key);
  if (!json[key].is_object()) refuse(place, "must be an object");
  for (const auto& [axis, value] : json[key].items()) {
    const std::string axis_place = fmt::format("{}.{}", place, axis);
    canonical(grammars.find(axis, place), value, axis_place);
    values.emplace_back(axis, value);
  }
  return values;
}

// Keeps those of `values` that are in `kept`.
std::vector<std::string> intersect(std::vector<std::string> values,
                                   const std::vector<std::string>& kept) {
  std::erase_if(values, [&](const std::string& value) {
    return std::ranges::find(kept, value) == kept.end();
  });
  return values;
}

// Returns false where the object has the axis and none of its values is kept.
bool keep_values(Json& object, const std::string& axis, const std::vector<std::string>& kept,
                 const AxisGrammar& grammar, const std::string& where) {
  if (!object.contains(axis)) return true;
  const std::vector<std::string> left = intersect(canonical(grammar, object[axis], where), kept);
  if (left.empty()) return false;
  object[axis] = left;
  return true;
}

}  // namespace

SweepCut read_cut(const Json& json, const std::string& where, const Registry& registry) {
  check_keys(json, {"replace", "keep", "protocol", "peers"}, where);
  const AxisGrammars grammars(registry);
  SweepCut cut{.replace = read_values(json, "replace", grammars, where),
               .keep = read_values(json, "keep", grammars, where)};
  if (json.contains("protocol")) {
    if (!json["protocol"].is_object()) refuse(where + ".protocol", "must be an object");
    cut.protocol = json["protocol"];
  }
  if (json.contains("peers")) cut.peers = json["peers"];
  return cut;
}

Json cut_sweep(Json sweep, const SweepCut& cut, const std::string& where,
               const Registry& registry) {
  const AxisGrammars grammars(registry);
  Json products = sweep["axes"].is_array() ? sweep["axes"] : Json::array({sweep["axes"]});
  Json exclusions = sweep.value("exclude", Json::array());
  const auto keep = [&](const std::string& axis, const Json& values) {
    const AxisGrammar& grammar = grammars.find(axis, where);
    const std::vector<std::string> kept = canonical(grammar, values, where);
    const auto drop = [&](Json& list, const auto& object_of) {
      Json left = Json::array();
      for (Json& item : list) {
        if (keep_values(object_of(item), axis, kept, grammar, where)) left.push_back(item);
      }
      list = left;
    };
    drop(products, [](Json& item) -> Json& { return item; });
    drop(exclusions, [](Json& item) -> Json& { return item["where"]; });
  };
  for (const auto& [axis, values] : cut.replace) {
    for (Json& product : products) product[axis] = values;
    keep(axis, values);
  }
  for (const auto& [axis, values] : cut.keep) keep(axis, values);
  if (products.empty()) refuse(where, "the cut leaves no point");
  sweep["axes"] = products;
  sweep.erase("exclude");
  if (!exclusions.empty()) sweep["exclude"] = exclusions;
  for (const auto& [key, value] : cut.protocol.items()) sweep["protocol"][key] = value;
  if (!cut.peers.is_null()) {
    sweep["peers"] = cut.peers;
    if (cut.peers.empty()) sweep.erase("peers");
  }
  return sweep;
}

SweepCut joined(const SweepCut& first, const SweepCut& second, const Registry& registry) {
  const AxisGrammars grammars(registry);
  SweepCut both = first;
  const auto find = [](AxisValues& values, const std::string& axis) {
    return std::ranges::find(values, axis, [](const auto& one) { return one.first; });
  };
  for (const auto& replaced : second.replace) {
    std::erase_if(both.keep, [&](const auto& kept) { return kept.first == replaced.first; });
    const auto own = find(both.replace, replaced.first);
    if (own == both.replace.end()) {
      both.replace.push_back(replaced);
    } else {
      own->second = replaced.second;
    }
  }
  for (const auto& kept : second.keep) {
    const std::string& axis = kept.first;
    const AxisGrammar& grammar = grammars.find(axis, "keep");
    const auto narrow = [&](Json& own) {
      own = intersect(canonical(grammar, own, axis), canonical(grammar, kept.second, axis));
    };
    if (const auto own = find(both.replace, axis); own != both.replace.end()) {
      narrow(own->second);
    } else if (const auto same = find(both.keep, axis); same != both.keep.end()) {
      narrow(same->second);
    } else {
      both.keep.push_back(kept);
    }
  }
  // An axis of which nothing is left is one that the sweep does not have.
  const auto is_empty = [](const auto& one) { return one.second.is_array() && one.second.empty(); };
  std::erase_if(both.replace, is_empty);
  std::erase_if(both.keep, is_empty);
  both.protocol.update(second.protocol);
  if (!second.peers.is_null()) both.peers = second.peers;
  return both;
}

std::string describe(const SweepCut& cut) {
  std::string text;
  const auto add = [&](const std::string& what, const Json& value) {
    std::string values = axis_text(value, what);
    for (std::size_t at = values.find(','); at != std::string::npos;
         at = values.find(',', at + 2)) {
      values.replace(at, 1, ", ");
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : "; ", what, values);
  };
  for (const auto& [axis, values] : cut.replace) add(axis, values);
  for (const auto& [axis, values] : cut.keep) add(axis + " of", values);
  for (const auto& [key, value] : cut.protocol.items()) add(key, value);
  if (cut.peers.is_array()) add("peers", cut.peers.empty() ? Json("none") : cut.peers);
  return text;
}

}  // namespace attnlab
