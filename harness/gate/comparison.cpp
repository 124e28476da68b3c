#include "harness/gate/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/errors.h"
#include "harness/gate/significance.h"
#include "harness/record/record_json.h"
#include "harness/report/field.h"
#include "harness/report/sampling.h"

namespace attnlab {
namespace {

constexpr double kSignificant = 0.05;  // of adjusted p-values
constexpr double kWithinRun = 0.01, kBetweenRuns = 0.05;
constexpr double kBytes = 0.01;   // that modelled and counted bytes may differ by
constexpr double kErrors = 0.01;  // that errors may: sums in any order end in other bits

// What must be the same for two times to stand side by side.
constexpr const char* kMustAgree[] = {"/device/name", "/device/isa", "/device/threads",
                                      "/device/cuda/driver", "/protocol"};

using Side = std::map<std::string, const RecordJson*>;

struct Pair {
  std::string key;  // of the base
  const RecordJson* base = nullptr;
  const RecordJson* now = nullptr;
};

std::string regime_of(const RecordJson& record) {
  const RecordJson regime = at(record, {"protocol", "regime"});
  return regime.is_string() ? regime.get<std::string>() : "burst";  // older records
}

// Burst and settled times are two points; record_key() does not tell them apart.
std::string point_key(const RecordJson& record) {
  return record_key(record) + "/" + regime_of(record);
}

bool was_tried(const RecordJson& record) {
  return record.at("status") != "skipped" && record.at("status") != "unsupported";
}

// The records of a side by point. What was skipped and then run, as --resume does, is there once.
Side by_point(const std::vector<RecordJson>& records, std::vector<std::string>& duplicates) {
  std::map<std::string, std::vector<const RecordJson*>> all;
  for (const RecordJson& record : records) all[point_key(record)].push_back(&record);
  Side side;
  for (auto& [key, own] : all) {
    if (own.size() > 1) {
      std::vector<const RecordJson*> tried;
      std::ranges::copy_if(own, std::back_inserter(tried),
                           [](const RecordJson* record) { return was_tried(*record); });
      own = tried.empty() ? std::vector{own.back()} : tried;
    }
    if (own.size() > 1) {
      duplicates.push_back(key);
    } else {
      side[key] = own.front();
    }
  }
  return side;
}

// The point without what its kernel chose: what was asked for, which older records do not have.
std::string asked_key(const RecordJson& record) {
  RecordJson asked = record;
  asked["config"] = RecordJson::object();
  return point_key(asked);
}

bool may_be_one_point(const RecordJson& a, const RecordJson& b) {
  const RecordJson left = at(a, {"config_asked"}), right = at(b, {"config_asked"});
  return left.is_null() || right.is_null() || left == right;
}

// Takes from both sides what has a partner: the same config first, then the same choice left open,
// where only one point of each side can be meant.
std::vector<Pair> take_pairs(Side& base, Side& now) {
  std::vector<Pair> pairs;
  for (const auto& [key, record] : base) {
    if (const auto partner = now.find(key); partner != now.end()) {
      pairs.push_back({key, record, partner->second});
    }
  }
  for (const Pair& pair : pairs) {
    base.erase(pair.key);
    now.erase(pair.key);
  }
  const auto by_asked = [](Side& side) {
    std::map<std::string, std::vector<Side::iterator>> places;
    for (auto place = side.begin(); place != side.end(); ++place) {
      places[asked_key(*place->second)].push_back(place);
    }
    return places;
  };
  const auto left = by_asked(base), right = by_asked(now);
  for (const auto& [key, own] : left) {
    const auto others = right.find(key);
    const bool unique = others != right.end() && own.size() == 1 && others->second.size() == 1;
    if (!unique) continue;
    const Side::iterator before = own.front(), after = others->second.front();
    if (!may_be_one_point(*before->second, *after->second)) continue;
    pairs.push_back({before->first, before->second, after->second});
    base.erase(before);
    now.erase(after);
  }
  return pairs;
}

std::string config_change(const RecordJson& base, const RecordJson& now) {
  std::string text;
  for (const auto& [name, value] : now.at("config").items()) {
    const RecordJson before = base.at("config").value(name, RecordJson());
    if (before == value) continue;
    text +=
        fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", name, before.dump(), value.dump());
  }
  return text;
}

std::optional<double> number(const RecordJson& record, const std::vector<const char*>& path) {
  const RecordJson value = at(record, path);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

// Collects the values of two records that differ.
class Values {
 public:
  // `tolerance` is the share by which equal kernels' values differ.
  void add(Judged judged, const std::string& what, std::optional<double> base,
           std::optional<double> now, double tolerance) {
    if (!base || !now) return;
    const bool worse = !(*now <= *base * (1.0 + tolerance));
    const bool less = *now < *base * (1.0 - tolerance);
    if (!worse && !less) return;
    changes_.push_back(
        {.judged = judged, .what = what, .base = *base, .now = *now, .worse = worse});
  }
  std::vector<ValueChange> take() { return std::move(changes_); }

 private:
  std::vector<ValueChange> changes_;
};

void add_errors(const RecordJson& base, const RecordJson& now, Values& values) {
  for (const RecordJson& verdict : now.at("verify")) {
    for (const RecordJson& before : base.at("verify")) {
      if (before.at("tensor") != verdict.at("tensor")) continue;
      const std::string tensor = verdict.at("tensor").get<std::string>();
      values.add(Judged::errors, "rel_fro of " + tensor, number(before, {"rel_fro"}),
                 number(verdict, {"rel_fro"}), kErrors);
    }
  }
}

// The bytes that a schedule asks for, and those that were counted, of which dram's vary by more
// than a change would: they are shown in records alone.
void add_bytes(const RecordJson& base, const RecordJson& now, Values& values) {
  for (const char* direction : {"read", "write"}) {
    const std::string requested = fmt::format("requested_{}_bytes", direction);
    values.add(Judged::bytes, requested, number(base, {"traffic", requested.c_str()}),
               number(now, {"traffic", requested.c_str()}), kBytes);
    const std::string key = fmt::format("{}_bytes", direction);
    const auto counted = [&](const RecordJson& record) {
      const bool valid = at(record, {"traffic", "valid"}) == true;
      return valid ? number(record, {"traffic", "l2", key.c_str()}) : std::nullopt;
    };
    values.add(Judged::bytes, "l2_" + key, counted(base), counted(now), kBytes);
  }
}

// The entries of a record's units by name, of one name the largest value of `read`.
template <class Read>
std::map<std::string, double> of_entries(const RecordJson& record, const Read& read) {
  std::map<std::string, double> values;
  for (const RecordJson& unit : record.value("compile", RecordJson::array())) {
    for (const RecordJson& entry : unit.value("entries", RecordJson::array())) {
      const double value = read(entry);
      const auto [place, is_new] = values.try_emplace(entry.at("name"), value);
      place->second = std::max(place->second, value);
    }
  }
  return values;
}

template <class Read>
void add_entries(Judged judged, const char* what, const RecordJson& base, const RecordJson& now,
                 const Read& read, Values& values) {
  const std::map<std::string, double> before = of_entries(base, read);
  for (const auto& [name, value] : of_entries(now, read)) {
    const auto known = before.find(name);
    if (known == before.end()) continue;  // a kernel of another name
    values.add(judged, fmt::format("{} of {}", what, name), known->second, value, 0.0);
  }
}

std::vector<ValueChange> value_changes(const RecordJson& base, const RecordJson& now) {
  Values values;
  add_errors(base, now, values);
  add_bytes(base, now, values);
  values.add(Judged::memory, "peak_bytes", number(base, {"memory", "peak_bytes"}),
             number(now, {"memory", "peak_bytes"}), 0.0);
  const auto sum = [](const RecordJson& entry, const char* a, const char* b) {
    return entry.value(a, 0.0) + entry.value(b, 0.0);
  };
  add_entries(
      Judged::registers, "registers", base, now,
      [](const RecordJson& entry) { return entry.value("registers", 0.0); }, values);
  add_entries(
      Judged::spills, "spill_bytes", base, now,
      [&](const RecordJson& entry) { return sum(entry, "spill_store_bytes", "spill_load_bytes"); },
      values);
  add_entries(
      Judged::shared, "shared_bytes", base, now,
      [&](const RecordJson& entry) {
        return sum(entry, "static_shared_bytes", "dynamic_shared_bytes");
      },
      values);
  return values.take();
}

// Why the time of a record is none to compare, "" if it is.
std::string doubt_of(const RecordJson& record) {
  if (at(record, {"time", "telemetry", "settled"}) == false) return "its clock did not settle";
  if (sampled_of(record)) return "a sample of its outputs was verified";
  return "";
}

bool is_same_run(const RecordJson& base, const RecordJson& now) {
  const RecordJson run = at(base, {"run"});
  return run.is_string() && run == at(now, {"run"});
}

// In the order in which they were taken; one that says nothing of a point without a time.
std::vector<double> samples_of(const RecordJson& record) {
  const RecordJson samples = at(record, {"time", "samples_s"});
  return samples.is_array() ? samples.get<std::vector<double>>() : std::vector{1.0};
}

TimeChange time_change(const RecordJson& base, const RecordJson& now) {
  const std::vector<double> before = samples_of(base), after = samples_of(now);
  TimeChange change;
  change.base_s = base.at("time").at("median_s").get<double>();
  change.now_s = now.at("time").at("median_s").get<double>();
  change.ratio = change.now_s / change.base_s;
  change.ratio95 = median_ratio_interval95(before, after,
                                           is_same_run(base, now) && before.size() == after.size());
  change.p = mann_whitney_p(before, after);
  const auto clock = [](const RecordJson& record) {
    return number(record, {"time", "telemetry", "cycles"});
  };
  if (clock(base) && clock(now)) change.cycles_ratio = *clock(now) / *clock(base);
  for (const auto& [side, record] : {std::pair("base", &base), std::pair("new", &now)}) {
    const std::string doubt = doubt_of(*record);
    if (!doubt.empty()) change.reason = fmt::format("{}: {}", side, doubt);
  }
  return change;
}

// Judges a change of time; `least_p` is the smallest adjusted p that its samples can have.
void judge(TimeChange& change, double threshold, double least_p) {
  if (!change.reason.empty()) return;
  const bool significant = change.p <= kSignificant;
  const auto agrees = [&](bool slower) {
    return !change.cycles_ratio ||
           (slower ? *change.cycles_ratio > 1.0 : *change.cycles_ratio < 1.0);
  };
  if (change.ratio > 1.0 + threshold && significant && change.ratio95.low > 1.0) {
    change.verdict = agrees(true) ? TimeVerdict::slower : TimeVerdict::ambiguous;
    if (!agrees(true)) change.reason = "slower in seconds, not in cycles: another clock";
  } else if (change.ratio < 1.0 - threshold && significant && change.ratio95.high < 1.0) {
    change.verdict = agrees(false) ? TimeVerdict::faster : TimeVerdict::ambiguous;
    if (!agrees(false)) change.reason = "faster in seconds, not in cycles: another clock";
  } else if (change.ratio95.high < 1.0 + threshold) {
    change.verdict = TimeVerdict::same;  // or faster by less than the threshold, or not surely
  } else if (least_p > kSignificant) {
    change.reason = "too few samples for so many points";
  } else {
    change.reason = "the interval reaches beyond the threshold";
  }
}

PointChange point_change(const std::string& key, const RecordJson& base, const RecordJson& now) {
  PointChange point;
  point.key = key;
  point.record = &base;
  point.config = config_change(base, now);
  const std::string before = base.at("status"), after = now.at("status");
  if (after != "ok") {
    const bool cannot_be = !was_tried(now) || after == "out_of_memory";
    point.failed = after == "failed";
    point.measured = cannot_be && before == after;
    point.trouble = fmt::format("{}: {}", after, now.value("reason", ""));
    return point;
  }
  if (before != "ok") {  // nothing to compare with
    point.trouble = fmt::format("was {}", before);
    return point;
  }
  const bool timed = base.at("time").is_object() && now.at("time").is_object();
  if (timed) point.time = time_change(base, now);
  point.values = value_changes(base, now);
  return point;
}

void add_differences(const RecordJson& base, const RecordJson& now, std::set<std::string>& all) {
  for (const char* path : kMustAgree) {
    const RecordJson::json_pointer pointer(path);
    const RecordJson was = base.value(pointer, RecordJson()), is = now.value(pointer, RecordJson());
    if (was == is) continue;
    std::string name = std::string(path).substr(1);
    std::ranges::replace(name, '/', '.');
    all.insert(fmt::format("{} was {} and is {}", name, was.dump(), is.dump()));
  }
}

// 0 for what ends a gate at once, then the slowest, then what is worse otherwise.
auto badness(const PointChange& point, const std::vector<Judged>& fail_on) {
  const bool bad = point.failed || !point.measured;
  const double ratio = point.time ? point.time->ratio : 1.0;
  return std::tuple(!bad, !is_worse(point, fail_on), -ratio);
}

// Gives all times their adjusted p-values and verdicts.
void judge_times(std::vector<PointChange>& points, const std::vector<double>& thresholds,
                 const std::vector<double>& least) {
  std::vector<double> p;
  for (const PointChange& point : points) p.push_back(point.time ? point.time->p : 1.0);
  const std::vector<double> adjusted = holm_adjusted(p);
  const auto family = static_cast<double>(std::ranges::count_if(
      points, [](const PointChange& point) { return point.time.has_value(); }));
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].time) continue;
    points[i].time->p = adjusted[i];
    judge(*points[i].time, thresholds[i], least[i] * family);
  }
}

}  // namespace

const char* to_string(Judged judged) {
  switch (judged) {
    case Judged::time: return "time";
    case Judged::errors: return "errors";
    case Judged::bytes: return "bytes";
    case Judged::memory: return "memory";
    case Judged::registers: return "registers";
    case Judged::spills: return "spills";
    case Judged::shared: return "shared";
  }
  return "";
}

std::vector<Judged> all_judged() {
  return {Judged::time,      Judged::errors, Judged::bytes, Judged::memory,
          Judged::registers, Judged::spills, Judged::shared};
}

std::vector<Judged> parse_judged(const std::vector<std::string>& words, const std::string& where) {
  std::vector<Judged> parsed;
  for (const std::string& word : words) {
    const std::vector<Judged> all = all_judged();
    const auto found =
        std::ranges::find_if(all, [&](Judged judged) { return word == to_string(judged); });
    if (found == all.end()) {
      throw UsageError(
          fmt::format("{}: '{}' is none of time, errors, bytes, memory, registers, spills, shared",
                      where, word));
    }
    parsed.push_back(*found);
  }
  return parsed;
}

const char* to_string(TimeVerdict verdict) {
  switch (verdict) {
    case TimeVerdict::same: return "same";
    case TimeVerdict::faster: return "faster";
    case TimeVerdict::slower: return "slower";
    case TimeVerdict::ambiguous: return "ambiguous";
  }
  return "";
}

Comparison compare(const std::vector<RecordJson>& base, const std::vector<RecordJson>& now,
                   const CompareOptions& options) {
  Comparison result;
  Side before = by_point(base, result.duplicates), after = by_point(now, result.duplicates);
  std::vector<double> thresholds, least;
  std::set<std::string> differences;
  for (const auto& [key, was, is] : take_pairs(before, after)) {
    add_differences(*was, *is, differences);
    result.points.push_back(point_change(key, *was, *is));
    thresholds.push_back(
        options.threshold.value_or(is_same_run(*was, *is) ? kWithinRun : kBetweenRuns));
    least.push_back(least_mann_whitney_p(samples_of(*was).size(), samples_of(*is).size()));
    result.threshold = std::max(result.threshold, thresholds.back());
  }
  for (const auto& [key, record] : before) result.missing.push_back(key);
  for (const auto& [key, record] : after) result.extra.push_back(key);
  const std::set<std::string> twice(result.duplicates.begin(), result.duplicates.end());
  result.duplicates.assign(twice.begin(), twice.end());
  std::erase_if(result.missing, [&](const std::string& key) { return twice.contains(key); });
  std::erase_if(result.extra, [&](const std::string& key) { return twice.contains(key); });
  if (!differences.empty() && !options.across) {
    throw UsageError(fmt::format(
        "{}: times of these cannot stand side by side; --across compares them all the same, and "
        "ends with code 5",
        *differences.begin()));
  }
  result.differences.assign(differences.begin(), differences.end());
  judge_times(result.points, thresholds, least);
  std::ranges::stable_sort(
      result.points, {}, [&](const PointChange& point) { return badness(point, options.fail_on); });
  return result;
}

bool is_worse(const PointChange& point, const std::vector<Judged>& fail_on) {
  const auto asked = [&](Judged judged) {
    return std::ranges::find(fail_on, judged) != fail_on.end();
  };
  const bool slower =
      asked(Judged::time) && point.time && point.time->verdict == TimeVerdict::slower;
  return slower || std::ranges::any_of(point.values, [&](const ValueChange& value) {
           return value.worse && asked(value.judged);
         });
}

int exit_code(const Comparison& comparison, const CompareOptions& options) {
  const auto any = [&](const auto& holds) { return std::ranges::any_of(comparison.points, holds); };
  if (any([](const PointChange& point) { return point.failed; })) return kExitVerificationFailed;
  if (comparison.points.empty() || any([](const PointChange& point) { return !point.measured; })) {
    return kExitEnvironment;
  }
  if (options.across) return kExitAmbiguous;
  if (any([&](const PointChange& point) { return is_worse(point, options.fail_on); })) {
    return kExitSlower;
  }
  const bool judges_time =
      std::ranges::find(options.fail_on, Judged::time) != options.fail_on.end();
  const bool ambiguous = judges_time && any([](const PointChange& point) {
                           return point.time && point.time->verdict == TimeVerdict::ambiguous;
                         });
  const bool unpaired = !comparison.missing.empty() || !comparison.duplicates.empty();
  return ambiguous || unpaired ? kExitAmbiguous : kExitGood;
}

}  // namespace attnlab
