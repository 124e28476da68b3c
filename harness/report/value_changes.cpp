#include "harness/report/value_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/errors.h"
#include "harness/record/beyond.h"

namespace attnlab {
namespace {

constexpr double kInexact = 0.01;  // that errors and bytes of equal kernels may differ by

// Reads a number, or the word that records have for one that JSON cannot hold.
std::optional<double> number(const RecordJson& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

std::optional<double> number(const RecordJson& record, const std::vector<const char*>& path) {
  return number(at(record, path));
}

// Collects what differs.
class Values {
 public:
  // Adds a changed value, with `exact` by however little; with `may_move` no change is worse.
  void add(Judged judged, const std::string& what, std::optional<double> base,
           std::optional<double> now, bool exact, bool may_move = false) {
    if (!base) return;  // older records lack some
    ValueChange change = {.judged = judged, .what = what, .base = base, .now = now};
    const double tolerance = exact ? 0.0 : kInexact;
    if (!now) {
      change.verdict = may_move ? ValueVerdict::other : ValueVerdict::gone;
    } else if (!(*now <= *base * (1.0 + tolerance))) {
      change.verdict = may_move ? ValueVerdict::other : ValueVerdict::worse;
    } else if (*now < *base * (1.0 - tolerance)) {
      change.verdict = may_move ? ValueVerdict::other : ValueVerdict::less;
    } else {
      return;
    }
    changes_.push_back(std::move(change));
  }
  std::vector<ValueChange> take() { return std::move(changes_); }

 private:
  std::vector<ValueChange> changes_;
};

// Reads the relative error of each tensor, before timing and of what was timed.
std::map<std::string, std::optional<double>> errors_of(const RecordJson& record) {
  std::map<std::string, std::optional<double>> errors;
  for (const auto& [list, when] : {std::pair("verify", ""), std::pair("verify_timed", ", timed")}) {
    const RecordJson verdicts = at(record, {list});
    if (!verdicts.is_array()) continue;
    for (const RecordJson& verdict : verdicts) {
      const std::string tensor = verdict.at("tensor").get<std::string>();
      errors[fmt::format("rel_fro of {}{}", tensor, when)] = number(verdict, {"rel_fro"});
    }
  }
  return errors;
}

std::optional<double> counted_l2(const RecordJson& record, const char* key) {
  if (at(record, {"traffic", "valid"}) != true) return std::nullopt;
  return number(record, {"traffic", "l2", key});
}

using Entries = std::map<std::string, const RecordJson*>;

// Finds the kernels of a record's units, and numbers the later ones of one name.
Entries entries_of(const RecordJson& units) {
  Entries entries;
  if (!units.is_array()) return entries;
  for (const RecordJson& unit : units) {
    const auto list = unit.find("entries");
    if (list == unit.end()) continue;
    for (const RecordJson& entry : *list) {
      const std::string name = entry.at("name").get<std::string>();
      std::string own = name;
      for (int i = 2; entries.contains(own); ++i) own = fmt::format("{} ({})", name, i);
      entries[own] = &entry;
    }
  }
  return entries;
}

std::optional<double> sum_of(const RecordJson* entry, const char* a, const char* b) {
  if (entry == nullptr) return std::nullopt;
  const std::optional<double> first = number(*entry, {a}), second = number(*entry, {b});
  return first && second ? std::optional(*first + *second) : std::nullopt;
}

void add_entries(const RecordJson& base, const RecordJson& now, bool may_move, Values& values) {
  const RecordJson units = at(base, {"compile"}), now_units = at(now, {"compile"});
  const Entries before = entries_of(units), after = entries_of(now_units);
  const auto spills = [](const RecordJson* entry) {
    return sum_of(entry, "spill_store_bytes", "spill_load_bytes");
  };
  for (const auto& [name, entry] : before) {
    const auto partner = after.find(name);
    const RecordJson* const other = partner == after.end() ? nullptr : partner->second;
    values.add(Judged::registers, "registers of " + name, number(*entry, {"registers"}),
               other == nullptr ? std::nullopt : number(*other, {"registers"}), true, may_move);
    const bool may_be_gone = may_move && other == nullptr;  // but what is there must not spill
    values.add(Judged::spills, "spill_bytes of " + name, spills(entry), spills(other), true,
               may_be_gone);
    const auto shared = [](const RecordJson* of) {
      return sum_of(of, "static_shared_bytes", "dynamic_shared_bytes");
    };
    values.add(Judged::shared, "shared_bytes of " + name, shared(entry), shared(other), true,
               may_move);
  }
  for (const auto& [name, entry] : after) {  // a new kernel must not spill either
    if (!before.contains(name) && !before.empty()) {
      values.add(Judged::spills, "spill_bytes of " + name, 0.0, spills(entry), true);
    }
  }
}

// A copy in the place of another one is a new one, so each name counts for itself. Whoever did not
// look has no value that could be gone: an observer is missing, no kernel.
void add_beyond(const RecordJson& base, const RecordJson& now, Values& values) {
  const auto before = launches_beyond(base), after = launches_beyond(now);
  if (!before || !after) return;
  std::map<std::string, std::pair<double, double>> launches;
  for (const auto& [name, count] : *before) launches[name].first = count;
  for (const auto& [name, count] : *after) launches[name].second = count;
  for (const auto& [name, count] : launches) {
    values.add(Judged::kernels, fmt::format("launches of {} beyond the operation", name),
               count.first, count.second, true);
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
    case Judged::kernels: return "kernels";
  }
  return "";
}

std::vector<Judged> all_judged() {
  return {Judged::time,      Judged::errors, Judged::bytes,  Judged::memory,
          Judged::registers, Judged::spills, Judged::shared, Judged::kernels};
}

std::vector<Judged> parse_judged(const std::vector<std::string>& words, const std::string& where) {
  const std::vector<Judged> all = all_judged();
  std::vector<Judged> parsed;
  for (const std::string& word : words) {
    const auto found =
        std::ranges::find_if(all, [&](Judged judged) { return word == to_string(judged); });
    if (found == all.end()) {
      throw UsageError(
          fmt::format("{}: '{}' is none of time, errors, bytes, memory, registers, spills, shared, "
                      "kernels",
                      where, word));
    }
    parsed.push_back(*found);
  }
  return parsed;
}

const char* to_string(ValueVerdict verdict) {
  switch (verdict) {
    case ValueVerdict::less: return "less";
    case ValueVerdict::worse: return "worse";
    case ValueVerdict::other: return "of another config";
    case ValueVerdict::gone: return "only the base has it";
  }
  return "";
}

std::vector<ValueChange> value_changes(const RecordJson& base, const RecordJson& now) {
  Values values;
  const bool other_config = base.at("config") != now.at("config");
  const auto errors = errors_of(now);
  for (const auto& [what, value] : errors_of(base)) {
    const auto partner = errors.find(what);
    values.add(Judged::errors, what, value,
               partner == errors.end() ? std::nullopt : partner->second, false);
  }
  for (const char* key : {"requested_read_bytes", "requested_write_bytes"}) {
    values.add(Judged::bytes, key, number(base, {"traffic", key}), number(now, {"traffic", key}),
               false, other_config);
  }
  for (const char* key : {"read_bytes", "write_bytes"}) {
    values.add(Judged::bytes, fmt::format("l2_{}", key), counted_l2(base, key),
               counted_l2(now, key), false, other_config);
  }
  values.add(Judged::memory, "peak_bytes", number(base, {"memory", "peak_bytes"}),
             number(now, {"memory", "peak_bytes"}), true);
  add_entries(base, now, other_config, values);
  add_beyond(base, now, values);
  return values.take();
}

}  // namespace attnlab
