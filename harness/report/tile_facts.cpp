#include "harness/report/tile_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/errors.h"
#include "harness/plan/accounting.h"
#include "harness/plan/axes.h"
#include "harness/plan/axis_values.h"
#include "harness/plan/builtin_axes.h"
#include "harness/plan/expand.h"
#include "harness/plan/gpus.h"
#include "harness/plan/peer_names.h"
#include "harness/plan/protocol.h"
#include "harness/record/record.h"
#include "harness/record/record_json.h"
#include "harness/report/fields.h"
#include "harness/report/model_kernels.h"

namespace attnlab {
namespace {

// A tile is made of these in every kernel that has them (kernels/api/config.h).
constexpr const char* kTileAxes[] = {"block_m", "block_n", "stages"};

bool is_tile_axis(std::string_view name) {
  return std::ranges::find(kTileAxes, name) != std::end(kTileAxes);
}

// Returns its chip, as far as the record and the data sheets tell.
Device device_of_record(const RecordJson& record) {
  const RecordJson& json = record.at("device");
  const std::string name = json.at("name");
  if (at(json, {"backend"}) != to_string(Backend::cuda)) {
    return {.backend = Backend::cpu,
            .name = name,
            .threads = json.at("threads"),
            .isa = json.at("isa"),
            .cache_bytes = json.at("cache_bytes")};
  }
  Device device{.backend = Backend::cuda,
                .compute_capability = json.at("cuda").at("compute_capability")};
  const Gpu* const gpu = find_gpu(name);
  device = gpu != nullptr ? device_of(*gpu) : device_of_arch(arch_of(device));
  device.name = name;
  device.memory_bytes = json.at("memory_bytes");
  device.multiprocessors = json.at("cuda").at("multiprocessors");
  device.l2_bytes = json.at("cuda").at("l2_bytes");
  device.max_clock_hz = json.at("cuda").at("max_clock_hz");
  device.driver = json.at("cuda").at("driver");
  return device;
}

// Returns the axes of the problem as the record's fields of the same names say.
Sweep sweep_of_record(const RecordJson& record) {
  Sweep sweep;
  for (const AxisGrammar& axis : builtin_grammars().rows()) {
    const std::string& name = axis.help.name;
    if (name == "kernel") break;  // what follows is the config's
    // Both lengths are given one by one, and values of inputs cost nothing.
    if (name == "seqlen" || name == "input_kind") continue;
    const RecordJson value = find_field(name, "").read(record);
    if (!value.is_null()) axis.set(sweep.axes.front(), exact(value), name);
  }
  const std::string backend = record.at("backend"), kernel = record.at("kernel");
  sweep.backend = backend == to_string(Backend::cuda) ? BackendChoice::cuda : BackendChoice::cpu;
  sweep.axes.front().kernel = {kernel};
  return sweep;
}

// Older records lack axes that came later, which stood at their defaults.
Config config_of_record(const RecordJson& record, const Implementation& kernel) {
  Config config = default_config(kernel);
  for (const auto& [name, value] : record.at("config").items()) {
    config.set(name, value.get<std::int64_t>());
  }
  return config;
}

RecordedPoint built_point(const RecordJson& record, const Registry& registry) {
  RecordedPoint point;
  if (const std::string kernel = record.at("kernel"); is_peer(kernel)) {
    point.reason = fmt::format("what {} does inside is not known", kernel);
    return point;
  }
  point.device = device_of_record(record);
  const std::vector<Case> cases = expand(sweep_of_record(record), registry, point.device);
  if (cases.size() != 1 || cases.front().competitors.size() != 1) {
    point.reason = "its axes are those of several points";
    return point;
  }
  point.work = cases.front();
  Competitor& competitor = point.work.competitors.front();
  const std::string id = record.at("id");
  if (point.work.problem.id() != id) {
    point.reason = "its problem cannot be told from its record alone";
  } else if (competitor.implementation == nullptr) {
    point.reason = fmt::format("this program has no {} on {}", competitor.kernel,
                               to_string(competitor.backend));
  } else {
    competitor.config = config_of_record(record, *competitor.implementation);
    point.reason = invalid(competitor.config, *competitor.implementation);
  }
  return point;
}

// Counts the work items of a forward: tiles of rows of every head, which a thread block gets. A
// backward's kernels divide the work otherwise, and packed entries end where they like.
std::optional<double> row_items(const Problem& problem, const Config& config) {
  const bool counted = problem.pass == Pass::fwd && problem.layout != Layout::packed;
  if (!counted || !config.contains("block_m") || config.get("block_m") <= 0) return std::nullopt;
  const std::int64_t rows = config.get("block_m");
  const std::int64_t tiles = (problem.seqlen_q + rows - 1) / rows;
  return static_cast<double>(tiles * problem.batch * problem.num_heads_q);
}

double all_bytes(const Traffic& traffic) {
  return static_cast<double>(traffic.read_bytes() + traffic.write_bytes());
}

// Returns the shared memory of a block: the most of the units' entries.
std::optional<double> shared_bytes(const RecordedPoint& point, const Config& config) {
  const Implementation& kernel = *point.work.competitors.front().implementation;
  if (kernel.units == nullptr) return std::nullopt;
  std::optional<double> most;
  for (const KernelUnit& unit : kernel.units(point.work.problem, config, point.device)) {
    for (const KernelEntry& entry : unit.entries) {
      most = std::max(most.value_or(0.0), static_cast<double>(entry.dynamic_shared_bytes));
    }
  }
  return most;
}

// Leaves out what the kernel chooses itself, and keeps the tile, and what tells one computation
// from another.
Config open_config(const Implementation& kernel, const Config& config) {
  Config open = default_config(kernel);
  for (const ConfigAxis& axis : axes_of(kernel)) {
    const bool kept = is_tile_axis(axis.name) || axis.role != AxisRole::none;
    if (kept && config.contains(axis.name)) open.set(axis.name, config.get(axis.name));
  }
  return open;
}

std::string config_flags(const Implementation& kernel, const Config& config) {
  std::string flags;
  if (config.contains("block_m") && config.contains("block_n")) {
    flags = fmt::format(" --block {}x{}", config.get("block_m"), config.get("block_n"));
  }
  const Config defaults = default_config(kernel);
  for (const auto& [name, value] : config.values()) {
    if (is_block_axis(name) || value == defaults.get(name)) continue;
    flags += fmt::format(" {} {}", flag_of(name), value);
  }
  return flags;
}

// Returns the flags of those axes of the problem that are not the command line's defaults.
std::string problem_flags(const Case& work) {
  const Axes defaults;
  const bool is_square = work.problem.seqlen_q == work.problem.seqlen_k;
  const bool is_grouped = work.problem.num_heads_q != work.problem.num_heads_kv;
  std::string flags;
  for (const AxisGrammar& axis : builtin_grammars().rows()) {
    const std::string& name = axis.help.name;
    if (name == "kernel") break;
    if (name == "heads_kv" && !is_grouped) continue;
    if (name.starts_with("seqlen") && (name == "seqlen") != is_square) continue;
    const std::string value = axis.value_of(work, work.competitors.front());
    if (value.empty()) continue;  // such as what shares a scale, of f16
    if (axis.values(defaults) == std::vector<std::string>{value}) continue;
    if (name == "softmax_scale" && work.problem.softmax_scale == 0.0) continue;
    flags += fmt::format(" {} {}", flag_of(name), value);
  }
  return flags;
}

std::string command_of(const Case& work, const Implementation& kernel, const Config& config) {
  return fmt::format("attnlab run --backend {} --kernel {}{}{}", to_string(kernel.backend),
                     kernel.name, problem_flags(work), config_flags(kernel, config));
}

// Returns the flag of caches and clocks as the record has them, where they are not the defaults.
std::string way_of(const RecordJson& record) {
  std::string way;
  if (at(record, {"protocol", "cache"}) == to_string(CacheState::cold)) way = "cache=cold";
  if (at(record, {"protocol", "regime"}) == to_string(Regime::settled)) {
    way += fmt::format("{}regime=settled", way.empty() ? "" : ",");
  }
  return way.empty() ? "" : fmt::format(" --protocol {}", way);
}

void add_measured(TileFact& fact, const RecordJson& record) {
  const RecordJson median = at(record, {"time", "median_s"});
  const bool settled = at(record, {"time", "telemetry", "settled"}) != false;
  if (median.is_number() && settled) fact.median_s = median.get<double>();
  const RecordJson registers = find_field("registers", "").read(record);
  if (registers.is_number()) fact.registers = registers.get<double>();
}

bool has_config(const RecordJson& record, const Config& config) {
  return std::ranges::all_of(config.values(), [&](const auto& axis) {
    const RecordJson value = at(record, {"config", axis.first.c_str()});
    return value.is_null() || value == axis.second;
  });
}

// Returns whether both are of one problem and kernel, measured on one device in the same way.
bool are_alike(const RecordJson& a, const RecordJson& b) {
  const std::vector<std::vector<const char*>> paths = {{"id"},
                                                       {"kernel"},
                                                       {"backend"},
                                                       {"input_kind"},
                                                       {"seed"},
                                                       {"device", "name"},
                                                       {"protocol", "regime"},
                                                       {"protocol", "cache"}};
  return std::ranges::all_of(paths, [&](const auto& path) { return at(a, path) == at(b, path); });
}

// Describes the tile of an open config.
TileFact fact_of(const RecordedPoint& point, const std::string& change, const Config& open) {
  const Problem& problem = point.work.problem;
  const Implementation& kernel = *point.work.competitors.front().implementation;
  TileFact fact{.change = change,
                .config = open,
                .reason = kernel.unsupported(problem, open, point.device),
                .command = command_of(point.work, kernel, open)};
  if (!fact.reason.empty()) return fact;
  fact.config = resolved(kernel, problem, open, point.device);
  fact.items = row_items(problem, fact.config);
  fact.shared_bytes = shared_bytes(point, fact.config);
  if (!too_many_tiles(problem, fact.config).empty()) return fact;
  const Traffic traffic = kernel.traffic(problem, fact.config);
  fact.bytes = all_bytes(traffic);
  fact.flops = static_cast<double>(traffic.executed_flops);
  return fact;
}

// Returns the values of `tried` next to `value`, below and above.
std::vector<std::int64_t> steps_from(std::span<const std::int64_t> tried, std::int64_t value) {
  std::optional<std::int64_t> below, above;
  for (const std::int64_t other : tried) {
    if (other < value) below = std::max(below.value_or(other), other);
    if (other > value) above = std::min(above.value_or(other), other);
  }
  std::vector<std::int64_t> steps;
  if (below) steps.push_back(*below);
  if (above) steps.push_back(*above);
  return steps;
}

std::vector<TileFact> neighbours_of(const RecordedPoint& point) {
  const Competitor& competitor = point.work.competitors.front();
  const Implementation& kernel = *competitor.implementation;
  std::vector<TileFact> neighbours;
  for (const char* name : kTileAxes) {
    const ConfigAxis* const axis = find_axis(kernel, name);
    if (axis == nullptr || !competitor.config.contains(name)) continue;
    for (const std::int64_t value : steps_from(axis->tried, competitor.config.get(name))) {
      Config open = open_config(kernel, competitor.config);
      open.set(name, value);
      neighbours.push_back(fact_of(point, fmt::format("{} {}", name, value), open));
    }
  }
  return neighbours;
}

std::vector<KernelFact> others_of(const RecordedPoint& point, const Registry& registry) {
  const Problem& problem = point.work.problem;
  const Implementation* const own = point.work.competitors.front().implementation;
  std::vector<KernelFact> others;
  for (const Implementation* kernel : registry.all()) {
    const Config open = default_config(*kernel);
    if (kernel == own || kernel->backend != own->backend) continue;
    if (!kernel->unsupported(problem, open, point.device).empty()) continue;
    const Config config = resolved(*kernel, problem, open, point.device);
    if (!too_many_tiles(problem, config).empty()) continue;
    others.push_back({.kernel = kernel->name,
                      .bytes = all_bytes(kernel->traffic(problem, config)),
                      .command = fmt::format("attnlab run --backend {} --kernel {}{}",
                                             to_string(kernel->backend), kernel->name,
                                             problem_flags(point.work))});
  }
  std::ranges::stable_sort(others, {}, &KernelFact::bytes);
  return others;
}

// Describes the point's own tile. Its command leaves to the kernel what that chooses as the point
// has it.
TileFact own_fact(const RecordedPoint& point) {
  const Competitor& competitor = point.work.competitors.front();
  const Implementation& kernel = *competitor.implementation;
  const Config open = open_config(kernel, competitor.config);
  const bool chooses_it =
      kernel.unsupported(point.work.problem, open, point.device).empty() &&
      resolved(kernel, point.work.problem, open, point.device) == competitor.config;
  return fact_of(point, "this", chooses_it ? open : competitor.config);
}

}  // namespace

RecordedPoint recorded_point(const RecordJson& record, const Registry& registry) {
  RecordedPoint point;
  try {
    return built_point(record, registry);
  } catch (const UsageError& error) {
    point.reason = error.what();
  } catch (const std::invalid_argument& error) {
    point.reason = error.what();
  }
  return point;
}

RecordJson paper_record(const RecordedPoint& point) {
  const Competitor& competitor = point.work.competitors.front();
  const Problem& problem = point.work.problem;
  Record record{.point = point.work,
                .sweep = "flags",
                .device = point.device,
                .protocol = default_protocol(point.device)};
  if (!wants_to_run(competitor)) {
    record.status = Status::unsupported;
    record.reason = competitor.unsupported;
    return to_json(record);
  }
  record.compulsory_bytes = compulsory_bytes(problem);
  record.flops = count_flops(problem, std::nullopt);
  if (too_many_tiles(problem, competitor.config).empty()) {
    record.requested = competitor.implementation->traffic(problem, competitor.config);
    record.flops = count_flops(problem, record.requested->executed_flops);
  }
  return to_json(record);
}

TileFacts tile_facts(const RecordedPoint& point, const Registry& registry, const RecordJson& record,
                     const std::vector<RecordJson>& records) {
  TileFacts facts{.reason = point.reason};
  if (!facts.reason.empty()) return facts;
  const Competitor& competitor = point.work.competitors.front();
  facts.tf32 = products_of(point.work.problem, competitor.implementation, competitor.config) ==
               reference::Products::tf32;
  facts.most_shared_bytes = static_cast<double>(point.device.shared_memory_per_block_bytes);
  facts.own = own_fact(point);
  facts.neighbours = neighbours_of(point);
  add_measured(facts.own, record);
  for (TileFact& tile : facts.neighbours) {
    for (const RecordJson& other : records) {
      if (are_alike(other, record) && has_config(other, tile.config)) add_measured(tile, other);
    }
  }
  facts.others = others_of(point, registry);
  facts.way = way_of(record);
  facts.own.command += facts.way;
  for (TileFact& tile : facts.neighbours) tile.command += facts.way;
  for (KernelFact& other : facts.others) other.command += facts.way;
  return facts;
}

}  // namespace attnlab
