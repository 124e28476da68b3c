// Reads sweep files strictly; sweeps/README.md describes the format.
#include "harness/plan/sweep_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/strict_json.h"
#include "harness/base/suggest.h"
#include "harness/plan/axes.h"
#include "harness/plan/axis_values.h"
#include "harness/plan/peer_names.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSweepSchema = "attnlab.sweep/1";

Axes read_product(const Json& json, const AxisGrammars& grammars, const std::string& where) {
  if (!json.is_object()) refuse(where, "must be an object");
  Axes axes;
  for (const auto& [axis, value] : json.items()) {
    const std::string key = fmt::format("{}.{}", where, axis);
    grammars.find(axis, where).set(axes, axis_text(value, key), key);
  }
  return axes;
}

// An object is one product; an array of objects is the union of several.
std::vector<Axes> read_axes(const Json& json, const AxisGrammars& grammars,
                            const std::string& where) {
  if (!json.is_array()) return {read_product(json, grammars, where)};
  if (json.empty()) refuse(where, "must not be empty");
  std::vector<Axes> products;
  for (std::size_t i = 0; i < json.size(); ++i) {
    products.push_back(read_product(json[i], grammars, fmt::format("{}[{}]", where, i)));
  }
  return products;
}

// Returns the values of a condition in canonical text. Peers are read apart: they compete as
// kernels do, but no kernel has their names.
std::vector<std::string> excluded_values(const AxisGrammar& grammar, const std::string& text,
                                         const std::string& where) {
  std::vector<std::string> peers;
  std::string others;
  for (const std::string_view item : split(text, ',')) {
    if (grammar.help.name == "kernel" && is_peer(trim(item))) {
      std::ranges::move(parse_peers(item, where), std::back_inserter(peers));
    } else {
      others += fmt::format("{}{}", others.empty() ? "" : ",", item);
    }
  }
  if (others.empty() && !peers.empty()) return peers;
  Axes axes;
  grammar.set(axes, others, where);
  std::vector<std::string> values = grammar.values(axes);
  std::ranges::move(peers, std::back_inserter(values));
  return values;
}

Exclusion read_exclusion(const Json& json, const AxisGrammars& grammars, const std::string& where) {
  check_keys(json, {"where", "reason"}, where);
  if (!json.contains("where")) refuse(where, "key 'where' is missing");
  if (!json.contains("reason")) {
    refuse(where, "key 'reason' is missing: say why the points are left out");
  }
  Exclusion exclusion;
  exclusion.reason = read_string(json["reason"], where + ".reason");
  const Json& conditions = json["where"];
  if (!conditions.is_object() || conditions.empty()) {
    refuse(where + ".where", "must be an object that names at least one axis");
  }
  for (const auto& [axis, value] : conditions.items()) {
    const std::string key = fmt::format("{}.where.{}", where, axis);
    const AxisGrammar& grammar = grammars.find(axis, where + ".where");
    exclusion.where.emplace_back(axis, excluded_values(grammar, axis_text(value, key), key));
  }
  return exclusion;
}

// Returns the one of `values` that has the key's word as its name.
template <class T>
T read_word(const Json& json, std::initializer_list<T> values, const std::string& where) {
  std::string known;
  for (const T value : values) {
    if (json == to_string(value)) return value;
    known += fmt::format("{}{}", known.empty() ? "" : " or ", to_string(value));
  }
  refuse(where, fmt::format("{} is not {}", json.dump(), known));
}

// Returns `protocol` with the keys of `json` replaced.
ProtocolSettings read_protocol(ProtocolSettings protocol, const Json& json,
                               const std::string& where) {
  check_keys(
      json,
      {"min_rounds", "max_rounds", "max_seconds", "interval", "warmup_seconds", "warmup_launches",
       "cache", "regime", "turn_seconds", "verify_multiply_adds", "verify_seconds"},
      where);
  constexpr int kMostRounds = 100000;
  const auto key_of = [&](const char* key) { return fmt::format("{}.{}", where, key); };
  const auto read = [&]<class T>(const char* key, std::optional<T>& member, T minimum, T maximum) {
    if (json.contains(key)) member = read_number<T>(json[key], minimum, maximum, key_of(key));
  };
  read("min_rounds", protocol.min_rounds, 1, kMostRounds);
  read("max_rounds", protocol.max_rounds, 1, kMostRounds);
  read("max_seconds", protocol.max_seconds, 1e-3, 86400.0);
  read("interval", protocol.interval, 0.0, 1.0);
  read("warmup_seconds", protocol.warmup_seconds, 0.0, 3600.0);
  read("warmup_launches", protocol.warmup_launches, 1, kMostRounds);
  read("turn_seconds", protocol.turn_seconds, 0.05, 60.0);
  read("verify_multiply_adds", protocol.verify_multiply_adds, std::int64_t{1},
       std::int64_t{1} << 50);
  read("verify_seconds", protocol.verify_seconds, 0.01, 86400.0);
  if (json.contains("cache")) {
    protocol.cache = read_word(json["cache"], {CacheState::hot, CacheState::cold}, key_of("cache"));
  }
  if (json.contains("regime")) {
    protocol.regime = read_word(json["regime"], {Regime::burst, Regime::settled}, key_of("regime"));
  }
  if (protocol.max_rounds && protocol.min_rounds && *protocol.max_rounds < *protocol.min_rounds) {
    refuse(key_of("max_rounds"),
           fmt::format("{} is below min_rounds = {}", *protocol.max_rounds, *protocol.min_rounds));
  }
  return protocol;
}

std::string read_name(const Json& json, const std::string& where) {
  const std::string name = read_string(json, where);
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  };
  if (!std::all_of(name.begin(), name.end(), allowed)) {
    refuse(where, fmt::format("'{}' names result files: use letters, digits, '-', '_', '.'", name));
  }
  return name;
}

// Returns "; did you mean 'sweeps/quick.json'?" if a sweep of nearly that name lies there.
std::string similar_file(const std::filesystem::path& file) {
  std::vector<std::string> names;
  std::error_code error;
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_sweep_name(entry.path())) names.push_back(entry.path().filename().string());
  }
  const std::string best = nearest(file.filename().string(), names);
  if (best.empty()) return "";
  return fmt::format("; did you mean '{}'?", (file.parent_path() / best).string());
}

}  // namespace

std::string axis_text(const Json& value, const std::string& where) {
  if (value.is_string()) return value;
  if (value.is_number()) return value.dump();
  if (!value.is_array()) refuse(where, "must be a number, a string or an array of these");
  if (value.empty()) refuse(where, "must not be empty");
  std::string text;
  for (const Json& item : value) {
    if (item.is_array()) refuse(where, "must not hold an array in an array");
    text += (&item == &value.front() ? "" : ",") + axis_text(item, where);
  }
  return text;
}

bool is_sweep_name(const std::filesystem::path& path) {
  const std::filesystem::path inner = path.stem().extension();
  return path.extension() == ".json" && inner != ".schema" && inner != ".paper" &&
         inner != ".published";
}

Sweep read_sweep(const std::filesystem::path& path, const Registry& registry) {
  const std::string file = path.string();
  std::ifstream stream(path);
  if (!std::filesystem::exists(path)) {
    const std::string similar = similar_file(path);
    refuse(file, "no such file" + (similar.empty() ? "; attnlab list shows the sweeps" : similar));
  }
  if (!stream || !std::filesystem::is_regular_file(path)) refuse(file, "cannot be read as a file");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  Sweep sweep = read_sweep(parse_json_text(text, file), file, registry);
  sweep.source = file;
  return sweep;
}

Sweep read_sweep(const Json& json, const std::string& file, const Registry& registry) {
  check_keys(json,
             {"$schema", "schema", "name", "description", "backend", "peers", "axes", "exclude",
              "protocol"},
             file);
  require_keys(json, {"schema", "name", "axes"}, file);
  if (json["schema"] != kSweepSchema) {
    refuse(file, fmt::format("schema: {} is not \"{}\"", json["schema"].dump(), kSweepSchema));
  }
  if (json.contains("$schema")) read_string(json["$schema"], file + ": $schema");  // for editors
  Sweep sweep;
  sweep.name = read_name(json["name"], file + ": name");
  if (json.contains("description")) {
    sweep.description = read_string(json["description"], file + ": description");
  }
  if (json.contains("backend")) {
    const std::string where = file + ": backend";
    sweep.backend = parse_backend(read_string(json["backend"], where), where);
  }
  if (json.contains("peers")) {
    const std::string where = file + ": peers";
    sweep.peers = parse_peers(axis_text(json["peers"], where), where);
  }
  const AxisGrammars grammars(registry);
  sweep.axes = read_axes(json["axes"], grammars, file + ": axes");
  if (json.contains("exclude")) {
    const Json& exclude = json["exclude"];
    if (!exclude.is_array()) refuse(file + ": exclude", "must be an array");
    for (std::size_t i = 0; i < exclude.size(); ++i) {
      sweep.exclude.push_back(
          read_exclusion(exclude[i], grammars, fmt::format("{}: exclude[{}]", file, i)));
    }
  }
  if (json.contains("protocol")) {
    sweep.protocol = read_protocol(sweep.protocol, json["protocol"], file + ": protocol");
  }
  return sweep;
}

void set_protocol(Sweep& sweep, std::string_view text, const std::string& where) {
  Json json = Json::object();
  for (const std::string_view item : split(text, ',')) {
    const std::size_t equals = item.find('=');
    const std::string_view value_text = item.substr(std::min(equals, item.size() - 1) + 1);
    Json value = Json::parse(value_text, nullptr, false);
    if (equals == std::string_view::npos || value_text.empty()) {
      refuse(where, fmt::format("'{}' is not KEY=VALUE, like min_rounds=3 or cache=cold", item));
    }
    if (value.is_discarded()) value = value_text;  // a word
    const std::string key(item.substr(0, equals));
    if (json.contains(key)) refuse(where, fmt::format("{} is given twice", key));
    json[key] = value;
  }
  sweep.protocol = read_protocol(sweep.protocol, json, where);
}

}  // namespace attnlab
