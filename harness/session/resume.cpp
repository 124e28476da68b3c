#include "harness/session/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/text_table.h"
#include "harness/plan/case.h"
#include "harness/record/difference.h"
#include "harness/record/record_json.h"
#include "harness/run/context.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// These must be the same for two times to stand side by side. Memory is left out, since it varies
// from boot to boot, and so is the commit, which every record names. The device comes first: the
// protocol's defaults depend on it.
constexpr const char* kMustAgree[] = {"/sweep",          "/problem",        "/device/name",
                                      "/device/isa",     "/device/threads", "/protocol",
                                      "/build/compiler", "/build/flags"};

// Returns the first difference in what must agree, "" if all does.
std::string first_disagreement(const Json& was, const Json& is) {
  for (const char* path : kMustAgree) {
    const Json::json_pointer pointer(path);
    std::string name = std::string(path).substr(1);
    for (char& c : name) c = c == '/' ? '.' : c;
    std::string text =
        first_difference(was.value(pointer, Json()), is.value(pointer, Json()), name);
    if (!text.empty()) return text;
  }
  return "";
}

// Names the command that the record is of, on a line of its own.
std::string began_as(const Json& record) {
  return fmt::format("It began as:\n  {}", record.value("command_line", "(not recorded)"));
}

// Holds what was found out about the file on the way.
struct Findings {
  std::map<std::string, std::size_t> commits;  // finished points by the commit they are of
  std::size_t split_cases = 0;   // in whatever layouts: some kernels were timed, others are left
  std::size_t runnable_now = 0;  // points that were skipped or unsupported
  std::size_t unsettled = 0;     // cases in whatever layouts that run again
  std::size_t foreign = 0;       // points that are not of this sweep
};

std::vector<std::string> make_notes(const Findings& found, bool is_complete) {
  std::vector<std::string> notes;
  if (found.foreign > 0) {
    notes.push_back(fmt::format("The file also has {} that {} not in this sweep.",
                                count_of(found.foreign, "point"),
                                found.foreign == 1 ? "is" : "are"));
  }
  if (is_complete) return notes;
  for (const auto& [commit, points] : found.commits) {
    if (commit == build_info().commit) continue;
    notes.push_back(fmt::format(
        "{} of it {} of commit {}, the rest will be of {}: every record names its own.",
        count_of(points, "point"), points == 1 ? "is" : "are", commit, build_info().commit));
  }
  if (found.unsettled > 0) {
    notes.push_back(fmt::format(
        "In {} the clock of a point did not settle: all that was timed in {} runs again, and the "
        "last record of a point counts.",
        count_of(found.unsettled, "case"), found.unsettled == 1 ? "it" : "them"));
  }
  if (found.split_cases > 0) {
    notes.push_back(fmt::format(
        "In {} some kernels were timed before: the others take turns without them now (a record's "
        "time.contenders is the number that did).",
        count_of(found.split_cases, "case")));
  }
  if (found.runnable_now > 0) {
    notes.push_back(fmt::format("{} recorded as skipped or unsupported can run now, and will.",
                                count_of(found.runnable_now, "point")));
  }
  return notes;
}

// Refuses records of another shard. A whole sweep may go on with records of any of its shards.
void check_shard(const std::optional<ShardPart>& part, const std::vector<Json>& records,
                 const std::string& file) {
  if (!part) return;
  for (const Json& record : records) {
    const Json was = record.value("shard", Json());
    const std::string said = was.is_null() ? "no shard"
                                           : fmt::format("shard {}/{}", was.at("index").get<int>(),
                                                         was.at("of").get<int>());
    if (said != "shard " + to_string(part->shard)) {
      throw UsageError(fmt::format(
          "{}: its records are of {}, and --shard says {}: name the file of that shard, or begin "
          "one. {}",
          file, said, to_string(part->shard), began_as(record)));
    }
  }
}

// Refuses records of another cut: a case may be in no shard of two cuts.
void check_cut(const std::optional<ShardPart>& part, const std::vector<Json>& records,
               const std::string& file) {
  if (!part) return;
  for (const Json& record : records) {
    if (record.at("shard").at("cut") == part->cut) continue;
    throw UsageError(fmt::format(
        "{}: the sweep was cut otherwise when its records were made (other points, kernels or "
        "protocol), so no shard holds what another one lacks: run all shards as this one began, or "
        "all of them into new files. {}",
        file, began_as(record)));
  }
}

void check_same(const Json& record, const Json& planned, const std::string& file) {
  const std::string text = first_disagreement(record, planned);
  if (text.empty()) return;
  throw UsageError(
      fmt::format("{}: {}, so its records and new ones cannot stand side by side: run the rest as "
                  "it began, or all of it into a new file with --out. {}",
                  file, text, began_as(record)));
}

bool was_never_tried(const Json& record) {
  const Json& status = record.at("status");
  return status == to_string(Status::skipped) || status == to_string(Status::unsupported);
}

bool did_not_settle(const Json& record) {
  return record.value(Json::json_pointer("/time/telemetry/settled"), Json()) == false;
}

}  // namespace

Remainder find_remainder(const std::vector<Case>& cases, const RunContext& context,
                         const std::vector<nlohmann::ordered_json>& records,
                         const std::string& file, Rest wanted) try {
  check_shard(context.shard, records, file);
  std::map<std::string, const Json*> last;  // record of each point
  for (const Json& record : records) last[record_key(record)] = &record;
  const std::size_t recorded = last.size();
  Remainder rest;
  Findings found;
  const auto is_unsettled = [&](const Case& work) {
    return std::ranges::any_of(work.competitors, [&](const Competitor& competitor) {
      const auto record = last.find(record_key(to_json(planned_record(work, competitor, context))));
      return record != last.end() && did_not_settle(*record->second);
    });
  };
  for (const CaseGroup& group : group_layouts(cases)) {
    const bool runs_again =
        wanted == Rest::missing_or_unsettled && std::ranges::any_of(group, is_unsettled);
    if (runs_again) ++found.unsettled;
    bool was_timed = false, is_left = false;
    for (const Case& work : group) {
      Case left = work;
      left.competitors.clear();
      for (const Competitor& competitor : work.competitors) {
        const Json planned = to_json(planned_record(work, competitor, context));
        const auto entry = last.extract(record_key(planned));
        const Json* record = entry.empty() ? nullptr : entry.mapped();
        if (record != nullptr) check_same(*record, planned, file);
        const bool runnable_now =
            record != nullptr && was_never_tried(*record) && wants_to_run(competitor);
        if (runnable_now) ++found.runnable_now;
        const bool is_timed = record != nullptr && !record->at("time").is_null();
        // One that hung has no time. It would hang again, and the run would never end.
        const bool again = runs_again && is_timed && wants_to_run(competitor);
        if (record == nullptr || runnable_now || again) {
          left.competitors.push_back(competitor);
          continue;
        }
        ++rest.finished;
        ++found.commits[record->at("build").at("commit").get<std::string>()];
        was_timed |= is_timed;
      }
      is_left |= std::ranges::any_of(left.competitors, wants_to_run);
      if (!left.competitors.empty()) rest.cases.push_back(std::move(left));
    }
    if (was_timed && is_left) ++found.split_cases;
  }
  check_cut(context.shard, records, file);
  found.foreign = last.size();
  if (recorded > 0 && found.foreign == recorded) {
    throw UsageError(
        fmt::format("{}: none of its {} is in this sweep: name this sweep's file, or begin one "
                    "with --out. {}",
                    file, count_of(recorded, "point"), began_as(records.front())));
  }
  rest.notes = make_notes(found, rest.cases.empty());
  return rest;
} catch (const Json::exception& error) {
  throw UsageError(
      fmt::format("{}: a record lacks a field or has it in another form: {}", file, error.what()));
}

}  // namespace attnlab
