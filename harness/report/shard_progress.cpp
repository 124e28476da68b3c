#include "harness/report/shard_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/progress.h"
#include "harness/record/record_json.h"

namespace attnlab {
namespace {

// Returns the seconds since 1970 of "2026-01-31T12:00:00Z".
double seconds_of(const RecordJson& record) {
  const std::string text = record.at("timestamp");
  std::tm time{};
  if (strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr) {
    throw UsageError(fmt::format("{}: its timestamp '{}' is no time as attnlab run writes it",
                                 record_key(record), text));
  }
  return static_cast<double>(timegm(&time));
}

double share_of(const RecordJson& record) {
  const RecordJson share = at(record, {"shard", "share"});
  return share.is_number() ? share.get<double>() : 0.0;
}

// Holds what a process finished after its first record: nobody wrote down when it began.
struct Span {
  double first = 0.0, last = 0.0;
  std::size_t points = 0;
  double share = 0.0;
};

Span span_of(std::vector<const RecordJson*> records) {
  std::ranges::stable_sort(records, {},
                           [](const RecordJson* record) { return seconds_of(*record); });
  Span span = {.first = seconds_of(*records.front()), .last = seconds_of(*records.back())};
  for (const RecordJson* record : records) {
    if (seconds_of(*record) <= span.first) continue;
    ++span.points;
    span.share += share_of(*record);
  }
  return span;
}

// Adds the speed of a shard's processes, and what it says of the rest.
void add_speed(const std::vector<const RecordJson*>& records, ShardState& shard) {
  std::map<std::string, std::vector<const RecordJson*>> runs;
  for (const RecordJson* record : records) runs[at(*record, {"run"}).dump()].push_back(record);
  double seconds = 0.0, share = 0.0, points = 0.0;
  for (const auto& [run, own] : runs) {
    const Span span = span_of(own);
    seconds += span.last - span.first;
    share += span.share;
    points += static_cast<double>(span.points);
  }
  if (!(seconds > 0.0)) return;
  shard.points_a_minute = 60.0 * points / seconds;
  if (share > 0.0) {
    shard.seconds_left = std::max(0.0, 1.0 - shard.share_done) * seconds / share;
  }
}

std::string time_left(const ShardState& shard) {
  if (shard.is_complete()) return "done";
  return shard.seconds_left ? time_text(*shard.seconds_left) : "-";
}

std::string rate_text(const std::optional<double>& points_a_minute) {
  return points_a_minute ? fmt::format("{:.1f}", *points_a_minute) : "-";
}

TextTable make_table(const std::vector<ShardState>& shards) {
  TextTable table = {.columns = {{.title = "sweep", .left = true, .key = true},
                                 {.title = "shard", .key = true},
                                 {.title = "done"},
                                 {.title = "of"},
                                 {.title = "failed"},
                                 {.title = "points a minute"},
                                 {.title = "left"}}};
  for (const ShardState& shard : shards) {
    table.rows.push_back({{shard.sweep},
                          {shard.of > 0 ? fmt::format("{}/{}", shard.index, shard.of) : "-"},
                          {std::to_string(shard.done)},
                          {shard.points > 0 ? std::to_string(shard.points) : "-"},
                          {std::to_string(shard.failed)},
                          {rate_text(shard.points_a_minute)},
                          {time_left(shard)}});
  }
  return table;
}

// Adds up what was measured of a sweep in one way, in shards and in runs that were not cut.
struct SweepState {
  std::set<std::string> cuts;
  std::size_t done = 0;
  std::size_t of_begun = 0;  // points of the shards that have records
  std::size_t of_all = 0;    // points of all shards; 0: no record says
  std::size_t begun = 0, shards = 0;

  // Returns how many points there are, 0 where that is not known. With two cuts it is not: a point
  // may be in no shard of either.
  std::size_t points() const {
    if (cuts.size() != 1) return 0;
    return of_all == 0 && begun == shards ? of_begun : of_all;
  }
};

// SweepStates groups shards by sweep and way of measuring.
using SweepStates = std::map<std::pair<std::string, std::string>, SweepState>;

SweepStates add_up(const std::vector<ShardState>& shards) {
  SweepStates sweeps;
  for (const ShardState& shard : shards) {
    SweepState& sweep = sweeps[{shard.sweep, shard.way}];
    sweep.done += shard.done;
    if (shard.of == 0) continue;
    sweep.of_begun += shard.points;
    sweep.cuts.insert(shard.cut);
    sweep.of_all = shard.sweep_points;
    sweep.shards = static_cast<std::size_t>(shard.of);
    ++sweep.begun;
  }
  return sweeps;
}

void mark_done_sweeps(std::vector<ShardState>& shards) {
  const SweepStates sweeps = add_up(shards);
  for (ShardState& shard : shards) {
    const SweepState& sweep = sweeps.at({shard.sweep, shard.way});
    shard.is_sweep_done = sweep.points() > 0 && sweep.done >= sweep.points();
  }
}

// Names the shards that have no record yet: "3/8, 5/8".
std::string describe_unbegun(const std::vector<ShardState>& shards) {
  std::map<std::tuple<std::string, std::string, std::string, int>, std::vector<int>> begun;
  for (const ShardState& shard : shards) {
    if (shard.of == 0 || shard.is_sweep_done) continue;
    begun[{shard.sweep, shard.way, shard.cut, shard.of}].push_back(shard.index);
  }
  std::string text;
  for (const auto& [cut, there] : begun) {
    const int of = std::get<3>(cut);
    for (int index = 1; index <= of; ++index) {
      if (std::ranges::find(there, index) != there.end()) continue;
      text += fmt::format("{}{}/{}", text.empty() ? "" : ", ", index, of);
    }
  }
  return text;
}

// Adds up all shards. The slowest one says how long they take.
std::string summary(const std::vector<ShardState>& shards) {
  std::size_t done = 0, points = 0, failed = 0;
  for (const auto& [name, sweep] : add_up(shards)) {
    done += sweep.done;
    points += sweep.points() > 0 ? sweep.points() : std::max(sweep.of_begun, sweep.done);
  }
  double points_a_minute = 0.0, longest = 0.0;
  bool is_known = true;
  for (const ShardState& shard : shards) {
    failed += shard.failed;
    if (shard.is_complete()) continue;
    points_a_minute += shard.points_a_minute.value_or(0.0);
    longest = std::max(longest, shard.seconds_left.value_or(0.0));
    is_known &= shard.seconds_left.has_value();
  }
  std::string text =
      fmt::format("{} of {} done, {} failed", done, count_of(points, "point"), failed);
  const bool is_over = std::ranges::all_of(shards, &ShardState::is_complete);
  if (!is_over) text += fmt::format(", {:.1f} a minute, ", points_a_minute);
  if (!is_over && is_known) text += time_text(longest) + " left where all shards run";
  if (!is_over && !is_known) text += "the time left is not known";
  text += ".";
  if (const std::string unbegun = describe_unbegun(shards); !unbegun.empty()) {
    text += fmt::format(" Without a record yet: {}.", unbegun);
  }
  return wrap(text);
}

std::string render_json(const std::vector<ShardState>& shards) {
  RecordJson array = RecordJson::array();
  for (const ShardState& shard : shards) {
    RecordJson object = {{"sweep", shard.sweep},
                         {"index", shard.index},
                         {"of", shard.of},
                         {"points", shard.points},
                         {"sweep_points", shard.sweep_points},
                         {"done", shard.done},
                         {"failed", shard.failed},
                         {"complete", shard.is_complete()},
                         {"share_done", shard.share_done}};
    object["points_a_minute"] =
        shard.points_a_minute ? RecordJson(*shard.points_a_minute) : RecordJson();
    object["seconds_left"] = shard.seconds_left ? RecordJson(*shard.seconds_left) : RecordJson();
    array.push_back(std::move(object));
  }
  return array.dump(1) + "\n";
}

}  // namespace

std::vector<ShardState> shard_states(const std::vector<RecordJson>& records) {
  // Records of unlike devices, or of another protocol, make no shard whole together.
  std::map<std::tuple<std::string, std::string, int, std::string>, std::vector<const RecordJson*>>
      shards;
  const std::vector<RecordJson> points = last_of_each_point(records, way_of_measuring);
  for (const RecordJson& record : points) {
    const RecordJson shard = at(record, {"shard"});
    const bool is_cut = shard.is_object();
    shards[{record.at("sweep"), is_cut ? shard.at("cut").get<std::string>() : "",
            is_cut ? shard.at("index").get<int>() : 0, way_of_measuring(record)}]
        .push_back(&record);
  }
  std::vector<ShardState> states;
  for (const auto& [name, own] : shards) {
    ShardState state = {.sweep = std::get<0>(name),
                        .cut = std::get<1>(name),
                        .way = std::get<3>(name),
                        .index = std::get<2>(name),
                        .done = own.size()};
    if (state.index > 0) {
      state.of = own.front()->at("shard").at("of");
      state.points = own.front()->at("shard").at("points");
      state.sweep_points = own.front()->at("shard").value("sweep_points", std::size_t{0});
    }
    for (const RecordJson* record : own) {
      const RecordJson status = record->at("status");
      if (status == "failed" || status == "invalid") ++state.failed;
      state.share_done += share_of(*record);
    }
    add_speed(own, state);
    states.push_back(std::move(state));
  }
  mark_done_sweeps(states);
  return states;
}

std::string render_progress(const std::vector<ShardState>& shards, TableFormat format) {
  const TextTable table = make_table(shards);
  switch (format) {
    case TableFormat::csv: return render_csv(table);
    case TableFormat::json: return render_json(shards);
    case TableFormat::markdown: return render_markdown(table) + "\n" + summary(shards);
    case TableFormat::table: break;
  }
  return render_plain(table) + "\n" + summary(shards);
}

}  // namespace attnlab
