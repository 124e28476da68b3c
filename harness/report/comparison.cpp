#include "harness/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "harness/base/errors.h"
#include "harness/record/difference.h"
#include "harness/record/record_json.h"

namespace attnlab {
namespace {

bool has(const std::vector<Judged>& all, Judged judged) {
  return std::ranges::find(all, judged) != all.end();
}

bool fails_verification(const RecordJson& record) {
  const auto any_fails = [&](const char* list) {
    const RecordJson verdicts = at(record, {list});
    return verdicts.is_array() && std::ranges::any_of(verdicts, [](const RecordJson& verdict) {
             return at(verdict, {"pass"}) == false;
           });
  };
  return record.at("status") == "failed" || any_fails("verify") || any_fails("verify_timed");
}

// Returns "block_m 128 -> 64", "" where the configs are equal.
std::string config_change(const RecordJson& base, const RecordJson& now) {
  const RecordJson& before = base.at("config");
  const RecordJson& after = now.at("config");
  std::set<std::string> names;
  for (const RecordJson* config : {&before, &after}) {
    for (const auto& item : config->items()) names.insert(item.key());
  }
  std::string text;
  for (const std::string& name : names) {
    const RecordJson was = before.value(name, RecordJson()), is = after.value(name, RecordJson());
    if (was == is) continue;
    const auto shown = [](const RecordJson& of) { return of.is_null() ? "-" : of.dump(); };
    text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", name, shown(was), shown(is));
  }
  return text;
}

// Returns status and reason on one line, whatever somebody wrote.
std::string trouble_of(const RecordJson& record) {
  const std::string status = record.at("status").get<std::string>();
  const RecordJson reason = at(record, {"reason"});
  std::string words = reason.is_string() ? reason.get<std::string>() : "";
  std::ranges::replace(words, '\n', ' ');
  return words.empty() ? status : fmt::format("{}: {}", status, words);
}

PointChange point_change(const Pair& pair, const CompareOptions& options) {
  const RecordJson& base = *pair.base;
  const RecordJson& now = *pair.now;
  PointChange point = {.key = pair.key, .record = pair.base, .config = config_change(base, now)};
  const std::string before = base.at("status"), after = now.at("status");
  point.base_status = before;
  point.status = after;
  if (after != "ok") {
    const bool can_be = after != "failed" && after != "invalid";
    point.measured = after == "failed" || (can_be && before == after);
    point.trouble = trouble_of(now);
    return point;
  }
  if (before != "ok") {
    point.trouble = "the base has none: " + trouble_of(base);
    return point;
  }
  point.compared = true;
  point.values = value_changes(base, now);
  if (is_timed(base) && is_timed(now)) {
    point.time = time_change(base, now);
    point.time->is_noise = static_cast<bool>(options.threshold_of);
    point.time->threshold = point.time->is_noise ? options.threshold_of(base) : options.threshold;
  } else if (!is_timed(now)) {
    point.measured = false;
    point.trouble = is_timed(base) ? "was timed, and is not now" : "has no time";
  }
  return point;
}

// Returns the protocol. Older records lack cache and regime, which they had no choice of.
RecordJson protocol_of(const RecordJson& record, bool with_rounds) {
  RecordJson protocol = record.at("protocol");
  if (!with_rounds) {
    for (const char* key : {"min_rounds", "max_rounds", "max_seconds", "interval"}) {
      protocol.erase(key);
    }
  }
  for (const auto& [key, only] : {std::pair("cache", "hot"), std::pair("regime", "burst")}) {
    if (!protocol.contains(key)) protocol[key] = only;
  }
  return protocol;
}

// Adds what must be the same for two times to stand side by side, and what may explain a change.
void add_differences(const Pair& pair, const CompareOptions& options,
                     std::set<std::string>& differences, std::set<std::string>& notes) {
  const auto differ = [&](std::initializer_list<const char*> paths, std::set<std::string>& to) {
    for (const char* path : paths) {
      std::string name = std::string(path).substr(1);
      std::ranges::replace(name, '/', '.');
      const RecordJson::json_pointer pointer(path);
      std::string text = first_difference(pair.base->value(pointer, RecordJson()),
                                          pair.now->value(pointer, RecordJson()), name);
      if (!text.empty()) to.insert(std::move(text));
    }
  };
  differ({"/device/name", "/device/cuda/driver"}, differences);
  const RecordJson::json_pointer limit("/device/cuda/power_limit_w");  // older records have none
  const bool both_name_it = pair.base->contains(limit) && pair.now->contains(limit);
  if (options.base_is_stored || both_name_it) {
    differ({"/device/cuda/power_limit_w"}, differences);
  }
  std::string protocol = first_difference(protocol_of(*pair.base, !options.any_rounds),
                                          protocol_of(*pair.now, !options.any_rounds), "protocol");
  if (!protocol.empty()) differences.insert(std::move(protocol));
  const bool on_cpu = pair.base->at("backend") == "cpu";
  if (on_cpu) differ({"/device/isa", "/device/threads", "/build/flags"}, differences);
  const RecordJson::json_pointer compiler("/compile/0/compiler");  // set if it compiled anything
  const bool both_compiled = pair.base->contains(compiler) && pair.now->contains(compiler);
  differ({"/compile/0/compiler"}, options.base_is_stored && both_compiled ? differences : notes);
  differ({"/build/compiler", "/peer/version"}, notes);
  const RecordJson::json_pointer uuid("/device/cuda/uuid");
  if (pair.base->contains(uuid) && pair.now->contains(uuid)) differ({"/device/cuda/uuid"}, notes);
}

// Sorts first those that end a comparison at once, then those that are worse, then the slowest.
auto badness(const PointChange& point, const std::vector<Judged>& fail_on) {
  return std::tuple(point.measured, !is_worse(point, fail_on),
                    point.time ? -point.time->ratio : -1.0);
}

}  // namespace

Comparison compare(const std::vector<RecordJson>& base, const std::vector<RecordJson>& now,
                   const CompareOptions& options) {
  Comparison result = {.pairing = pair_records(base, now)};
  for (const RecordJson& record : now) {
    if (fails_verification(record)) result.failed.push_back(record_key(record));
  }
  std::set<std::string> differences, notes;
  for (const Pair& pair : result.pairing.pairs) {
    add_differences(pair, options, differences, notes);
    result.points.push_back(point_change(pair, options));
  }
  if (!differences.empty() && !options.across) {
    throw UsageError(
        fmt::format("NEW: {}: times of both cannot stand side by side; --across compares them all "
                    "the same, and ends with code 5 at best",
                    *differences.begin()));
  }
  result.differences.assign(differences.begin(), differences.end());
  result.notes.assign(notes.begin(), notes.end());
  std::vector<TimeChange*> times;
  for (PointChange& point : result.points) {
    if (point.time) times.push_back(&*point.time);
  }
  judge_times(times);
  std::ranges::stable_sort(
      result.points, {}, [&](const PointChange& point) { return badness(point, options.fail_on); });
  return result;
}

bool is_worse(const PointChange& point, const std::vector<Judged>& fail_on) {
  const bool slower =
      has(fail_on, Judged::time) && point.time && point.time->verdict == TimeVerdict::slower;
  return slower || std::ranges::any_of(point.values, [&](const ValueChange& value) {
           return value.verdict == ValueVerdict::worse && has(fail_on, value.judged);
         });
}

bool is_judged(const PointChange& point) {
  if (point.compared) return point.time.has_value();
  return point.base_status == "unsupported" &&
         (point.status == "ok" || point.status == point.base_status);
}

bool is_ambiguous(const PointChange& point, const std::vector<Judged>& fail_on) {
  const bool time =
      has(fail_on, Judged::time) && point.time && point.time->verdict == TimeVerdict::ambiguous;
  const bool base_invalid = point.status == "ok" && point.base_status == "invalid";
  return time || base_invalid || std::ranges::any_of(point.values, [&](const ValueChange& value) {
           return value.verdict == ValueVerdict::gone && has(fail_on, value.judged);
         });
}

int exit_code(const Comparison& comparison, const CompareOptions& options) {
  const auto any = [&](const auto& holds) { return std::ranges::any_of(comparison.points, holds); };
  if (!comparison.failed.empty()) return kExitVerificationFailed;
  const bool compared = any([](const PointChange& point) { return point.compared; });
  const bool invalid = std::ranges::any_of(
      comparison.pairing.extra, [](const Unpaired& of) { return of.status == "invalid"; });
  if (!compared || invalid || any([](const PointChange& point) { return !point.measured; })) {
    return kExitEnvironment;
  }
  if (options.across) return kExitAmbiguous;
  if (any([&](const PointChange& point) { return is_worse(point, options.fail_on); })) {
    return kExitSlower;
  }
  const bool unpaired =
      !comparison.pairing.missing.empty() || !comparison.pairing.duplicates.empty();
  const bool ambiguous =
      any([&](const PointChange& point) { return is_ambiguous(point, options.fail_on); });
  return ambiguous || unpaired ? kExitAmbiguous : kExitGood;
}

}  // namespace attnlab
