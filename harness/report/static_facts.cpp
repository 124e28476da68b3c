#include "harness/report/static_facts.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/base/errors.h"
#include "harness/base/strict_json.h"
#include "harness/base/text_table.h"
#include "harness/plan/expand.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 8;  // levels of a baseline

Json entry_facts(const CompiledEntry& entry) {
  const auto shared =
      entry.static_shared_bytes + static_cast<std::int64_t>(entry.entry.dynamic_shared_bytes);
  return {{"threads", entry.entry.threads},
          {"registers", entry.registers},
          {"spill_bytes", entry.spill_store_bytes + entry.spill_load_bytes},
          {"stack_bytes", entry.stack_bytes},
          {"shared_bytes", shared},
          {"blocks_per_multiprocessor", entry.blocks_per_multiprocessor}};
}

Json schedule_facts(const Case& work, const Competitor& competitor, const Device& device) {
  const Implementation& kernel = *competitor.implementation;
  const Traffic traffic = kernel.traffic(work.problem, competitor.config);
  Json facts = {
      {"requested_read_bytes", traffic.read_bytes()},
      {"requested_write_bytes", traffic.write_bytes()},
      {"executed_flops", traffic.executed_flops},
      {"tiles_empty", traffic.tiles.empty},
      {"tiles_partial", traffic.tiles.partial},
      {"tiles_full", traffic.tiles.full},
      {"workspace_bytes", kernel.workspace_bytes(work.problem, competitor.config, device)},
      {"config", Json::object()}};
  for (const auto& [name, value] : competitor.config.values()) facts["config"][name] = value;
  return facts;
}

using Numbers = std::map<std::string, std::int64_t>;  // by path

void flatten(const Json& value, const std::string& path, Numbers& numbers) {
  const bool fits = !value.is_number_unsigned() ||
                    value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  if (value.is_number_integer() && fits) {
    numbers[path] = value.get<std::int64_t>();
    return;
  }
  if (!value.is_object()) {
    throw UsageError(fmt::format("{}: {} is no whole number", path, value.dump()));
  }
  for (const auto& [name, part] : value.items())
    flatten(part, fmt::format("{}/{}", path, name), numbers);
}

Numbers numbers_of(const Json& facts) {
  Numbers numbers;
  for (const char* part : {"units", "schedules"}) flatten(facts.at(part), part, numbers);
  return numbers;
}

}  // namespace

std::vector<std::string> static_archs() { return {"sm_80", "sm_90a"}; }

Sweep static_sweep() {
  Sweep sweep = default_compile_sweep();
  sweep.backend = BackendChoice::cuda;
  sweep.axes.front().mask = {parse_mask("none"), parse_mask("causal")};
  return sweep;
}

Json static_facts(const std::vector<Compilation>& compilations, const Registry& registry) {
  Json facts = {{"schema", kStaticSchema},
                {"compiler", compilations.empty() ? "" : compilations.front().compiler},
                {"units", Json::object()},
                {"schedules", Json::object()}};
  for (const Compilation& compilation : compilations) {
    Json& unit = facts["units"][compilation.unit + " " + compilation.arch];
    unit = Json::object();
    for (const CompiledEntry& entry : compilation.entries) {
      unit[entry.entry.name] = entry_facts(entry);
    }
  }
  for (const std::string& arch : static_archs()) {
    const Device device = device_of_arch(arch);
    for (const Case& work : expand(static_sweep(), registry, device)) {
      for (const Competitor& competitor : work.competitors) {
        if (!wants_to_run(competitor)) continue;
        const std::string name =
            fmt::format("{} {} {}", arch, work.problem.id(), competitor.kernel);
        facts["schedules"][name] = schedule_facts(work, competitor, device);
      }
    }
  }
  return facts;
}

std::vector<StaticChange> static_changes(const Json& base, const Json& now) {
  std::map<std::string, StaticChange> all;
  for (const auto& [what, value] : numbers_of(base)) all[what].base = value;
  for (const auto& [what, value] : numbers_of(now)) all[what].now = value;
  std::vector<StaticChange> changes;
  for (auto& [what, change] : all) {
    change.what = what;
    if (change.base != change.now) changes.push_back(std::move(change));
  }
  return changes;
}

Json parse_static_facts(const std::string& text, const std::string& where) {
  Json facts;
  try {
    facts = parse_strict_json(text, kDeepest, where);
  } catch (const nlohmann::json::exception& error) {
    throw UsageError(fmt::format("{}: is no JSON: {}", where, error.what()));
  }
  const Json compiler = facts.is_object() ? facts.value("compiler", Json()) : Json();
  const bool is_one = facts.is_object() && facts.value("schema", Json()) == kStaticSchema &&
                      compiler.is_string() && !compiler.get<std::string>().empty() &&
                      facts.value("units", Json()).is_object() &&
                      facts.value("schedules", Json()).is_object();
  if (!is_one) {
    throw UsageError(fmt::format("{}: is no \"{}\", as attnlab gate --static --update writes it",
                                 where, kStaticSchema));
  }
  try {
    numbers_of(facts);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", where, error.what()));
  }
  return facts;
}

std::string render_static_changes(const std::vector<StaticChange>& changes, TableFormat format) {
  if (format == TableFormat::json) {
    Json list = Json::array();
    const auto number = [](const auto& value) { return value ? Json(*value) : Json(); };
    for (const StaticChange& change : changes) {
      list.push_back(
          {{"what", change.what}, {"base", number(change.base)}, {"now", number(change.now)}});
    }
    return list.dump(1) + "\n";
  }
  TextTable table;
  table.columns = {
      {.title = "what", .left = true, .key = true}, {.title = "base"}, {.title = "now"}};
  const auto text = [](const auto& value) { return value ? fmt::format("{}", *value) : "-"; };
  for (const StaticChange& change : changes) {
    table.rows.push_back({{change.what}, {text(change.base)}, {text(change.now)}});
  }
  switch (format) {
    case TableFormat::csv: return render_csv(table);
    case TableFormat::markdown: return render_markdown(table);
    case TableFormat::table:
    case TableFormat::json: break;
  }
  return render_plain(table);
}

}  // namespace attnlab
