#include "harness/report/merging.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "harness/base/text_file.h"
#include "harness/base/text_table.h"
#include "harness/record/record_json.h"
#include "harness/report/shard_progress.h"

namespace attnlab {
namespace {

std::string text_at(const RecordJson& record, const std::vector<const char*>& path) {
  const RecordJson value = at(record, path);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Names a point on one device. It has the regime, whose times are a quantity of their own.
std::string merge_key(const RecordJson& record) {
  return fmt::format("{} {} {}", record_key(record), text_at(record, {"protocol", "regime"}),
                     device_key(record));
}

struct Held {
  const RecordJson* record = nullptr;
  std::string file;
};

// Holds all records of one point, in the order of the inputs, the one that is kept among them.
struct Candidates {
  std::vector<Held> all;
  std::size_t kept = 0;

  const Held& winner() const { return all[kept]; }
  // Returns whether it is a copy of a record that is there, which is then not added.
  bool add(const Held& held) {
    const bool is_copy =
        std::ranges::any_of(all, [&](const Held& other) { return *other.record == *held.record; });
    if (is_copy) return true;
    all.push_back(held);
    const bool is_later =
        text_at(*winner().record, {"timestamp"}) <= text_at(*held.record, {"timestamp"});
    if (is_later) kept = all.size() - 1;
    return false;
  }
};

std::string place_of(const Held& held) {
  return fmt::format("{} ({})", held.file, text_at(*held.record, {"timestamp"}));
}

// Says how another record of a point differs from the one that is kept, "" if it does not.
std::string disagreement(const Held& kept, const Held& other, const ThresholdOf& threshold_of) {
  const std::string lead = record_key(*kept.record) + ": ";
  const std::string status = text_at(*kept.record, {"status"});
  const std::string other_status = text_at(*other.record, {"status"});
  if (status != other_status) {
    return fmt::format("{}{} in {}, {} in {}.", lead, status, place_of(kept), other_status,
                       place_of(other));
  }
  const RecordJson now = at(*kept.record, {"time", "median_s"});
  const RecordJson before = at(*other.record, {"time", "median_s"});
  if (!now.is_number() || !before.is_number()) return "";
  const double change = before.get<double>() / now.get<double>() - 1.0;
  const double threshold = threshold_of(*kept.record);
  if (std::abs(change) <= threshold) return "";
  return fmt::format("{}{:.4g} ms in {}, {:+.1f} % in {}; {:.1f} % counts.", lead,
                     1e3 * now.get<double>(), place_of(kept), 100.0 * change, place_of(other),
                     100.0 * threshold);
}

// Names what takes turns: one problem in whatever layout, with one set of inputs, on one device.
std::string turns_key(const RecordJson& record) {
  RecordJson any = record;
  any["kernel"] = "";
  any["config"] = RecordJson::object();
  std::string id = text_at(record, {"id"});
  for (const char* layout : {"/bshd", "/bhsd"}) {
    const std::size_t place = id.find(layout);
    if (place != std::string::npos) id.erase(place, std::string(layout).size());
  }
  any["id"] = id;
  return merge_key(any);
}

std::vector<std::string> find_split_cases(const std::vector<RecordJson>& records) {
  struct Turns {
    std::set<std::string> contenders, runs;
  };
  std::map<std::string, Turns> cases;
  for (const RecordJson& record : records) {
    if (!at(record, {"time"}).is_object()) continue;
    Turns& turns = cases[turns_key(record)];
    const RecordJson contenders = at(record, {"time", "contenders"});
    turns.contenders.insert(contenders.is_null() ? "unknown" : contenders.dump());
    turns.runs.insert(text_at(record, {"run"}));
  }
  std::vector<std::string> split;
  for (const auto& [key, turns] : cases) {
    if (turns.contenders.size() < 2 && turns.runs.size() < 2) continue;
    split.push_back(fmt::format("{}: its kernels are of {}, with {} contenders.",
                                key.substr(0, key.find("//")), count_of(turns.runs.size(), "run"),
                                fmt::join(turns.contenders, " and ")));
  }
  return split;
}

// Says what was measured of a sweep in one way on one device, where that does not make it whole.
struct OpenSweep {
  std::string name;  // with the way, where there are several
  std::map<std::string, std::vector<const ShardState*>> cuts;
  std::size_t uncut = 0;  // points of runs of the whole sweep
};

std::vector<OpenSweep> find_open(const std::vector<ShardState>& states) {
  std::set<std::string> ways;
  for (const ShardState& state : states) {
    if (state.of > 0) ways.insert(state.way);
  }
  std::map<std::pair<std::string, std::string>, OpenSweep> sweeps;
  for (const ShardState& state : states) {
    if (state.is_sweep_done) continue;
    OpenSweep& sweep = sweeps[{state.sweep, state.way}];
    sweep.name = ways.size() > 1 ? fmt::format("{} ({})", state.sweep, state.way) : state.sweep;
    if (state.of == 0) sweep.uncut += state.done;
    if (state.of > 0) sweep.cuts[state.cut].push_back(&state);
  }
  std::vector<OpenSweep> open;
  for (auto& [place, sweep] : sweeps) {
    if (!sweep.cuts.empty()) open.push_back(std::move(sweep));
  }
  return open;
}

// Appends what the shards of a cut lack.
void add_missing(const std::string& sweep, const std::vector<const ShardState*>& shards,
                 std::vector<std::string>& missing) {
  const int of = shards.front()->of;
  for (int index = 1; index <= of; ++index) {
    const auto there = std::ranges::find(shards, index, &ShardState::index);
    if (there == shards.end()) {
      missing.push_back(
          fmt::format("Sweep {}: shard {}/{} has no records here.", sweep, index, of));
    } else if (!(*there)->is_complete()) {
      missing.push_back(fmt::format("Sweep {}: shard {}/{} has {} of {}.", sweep, index, of,
                                    (*there)->done, count_of((*there)->points, "point")));
    }
  }
}

std::vector<std::string> find_missing(const std::vector<RecordJson>& records) {
  const std::vector<ShardState> states = shard_states(records);
  std::vector<std::string> missing;
  for (const OpenSweep& sweep : find_open(states)) {
    if (sweep.cuts.size() > 1) {
      missing.push_back(fmt::format(
          "Sweep {}: its records are of {} cuts (another kernel, protocol or number of shards): no "
          "shard need hold what a shard of another cut lacks.",
          sweep.name, sweep.cuts.size()));
    }
    const std::size_t before = missing.size();
    for (const auto& [hash, shards] : sweep.cuts) add_missing(sweep.name, shards, missing);
    if (sweep.uncut == 0 || missing.size() == before) continue;
    missing.push_back(fmt::format("Sweep {}: {} of no shard may be among what they lack.",
                                  sweep.name, count_of(sweep.uncut, "point")));
  }
  return missing;
}

std::string list_of(const std::string& lead, const std::vector<std::string>& sentences) {
  if (sentences.empty()) return "";
  std::string text = wrap(lead);
  for (const std::string& sentence : sentences) text += "  " + wrap(sentence, 4);
  return text;
}

}  // namespace

Merged merge_records(const std::vector<MergeInput>& inputs, const ThresholdOf& threshold_of) {
  Merged merged;
  std::vector<Candidates> points;
  std::map<std::string, std::size_t> places;
  for (const MergeInput& input : inputs) {
    for (const RecordJson& record : input.records) {
      const auto [place, is_new] = places.emplace(merge_key(record), points.size());
      if (is_new) points.emplace_back();
      if (points[place->second].add({&record, input.file})) ++merged.copies;
    }
  }
  for (const Candidates& point : points) {
    const Held& kept = point.winner();
    merged.records.push_back(*kept.record);
    for (const Held& other : point.all) {
      if (&other == &kept) continue;
      merged.replaced.push_back({.key = record_key(*other.record),
                                 .file = other.file,
                                 .timestamp = text_at(*other.record, {"timestamp"}),
                                 .kept_file = kept.file,
                                 .kept_timestamp = text_at(*kept.record, {"timestamp"})});
      std::string words = disagreement(kept, other, threshold_of);
      if (!words.empty()) merged.disagreements.push_back(std::move(words));
    }
  }
  merged.split_cases = find_split_cases(merged.records);
  merged.missing = find_missing(merged.records);
  return merged;
}

void write_records(const std::vector<RecordJson>& records, const std::filesystem::path& file) {
  std::string lines;
  for (const RecordJson& record : records) {
    lines += record.dump(-1, ' ', false, RecordJson::error_handler_t::replace) + "\n";
  }
  std::error_code error;  // the file says what is wrong with its folder
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), error);
  replace_text(file, lines);
}

std::string render_merge(const Merged& merged) {
  std::vector<std::string> replaced;
  for (const Replaced& other : merged.replaced) {
    replaced.push_back(fmt::format("{}: of {} ({}), for {} ({}).", other.key, other.file,
                                   other.timestamp, other.kept_file, other.kept_timestamp));
  }
  return list_of(fmt::format("{} left out, since a later one of the same point counts:",
                             count_of(merged.replaced.size(), "record")),
                 replaced) +
         list_of("Records of one point disagree by more than noise:", merged.disagreements) +
         list_of("Kernels of a case did not all take turns together:", merged.split_cases) +
         list_of("Not complete:", merged.missing);
}

}  // namespace attnlab
