#include "harness/record/record_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "harness/base/build_info.h"
#include "harness/plan/protocol.h"
#include "harness/record/beyond.h"
#include "harness/record/json_parts.h"
#include "harness/record/repro.h"
#include "harness/tensors/safetensors.h"
#include "kernels/api/compiler.h"

namespace attnlab {

namespace {

using Json = nlohmann::ordered_json;

Json config_json(const Config& config) {
  Json json = Json::object();
  for (const auto& [name, value] : config.values()) json[name] = value;
  return json;
}

// Returns the config as it was asked for; null if it is the one that ran.
Json config_asked_json(const Competitor& competitor) {
  return competitor.asked.values().empty() ? Json() : config_json(competitor.asked);
}

Json pattern_json(const PatternSummary& pattern) {
  return {{"visible_fraction", pattern.visible_fraction},
          {"fnv1a", fmt::format("{:016x}", pattern.hash)}};
}

Json problem_json(const Problem& problem, const std::optional<PatternSummary>& pattern) {
  Json lengths = {{"kind", to_string(problem.lengths.kind)}, {"given", problem.lengths.given}};
  if (!problem.lengths.queries.empty()) lengths["queries"] = problem.lengths.queries;
  if (!problem.lengths.keys.empty()) lengths["keys"] = problem.lengths.keys;
  Json json = {{"pass", to_string(problem.pass)},
               {"dtype", to_string(problem.dtype)},
               {"layout", to_string(problem.layout)},
               {"batch", problem.batch},
               {"num_heads_q", problem.num_heads_q},
               {"num_heads_kv", problem.num_heads_kv},
               {"seqlen_q", problem.seqlen_q},
               {"seqlen_k", problem.seqlen_k},
               {"head_dim", problem.head_dim},
               {"mask", to_string(problem.mask)},
               {"blocks", optional(pattern, pattern_json)},
               {"lengths", lengths},
               {"dropout", problem.dropout},
               {"softmax_scale", problem.scale()}};
  if (problem.is_e4m3()) {
    json["quantisation"] = {{"quant", to_string(problem.quantisation.qk)},
                            {"quant_v", to_string(problem.quantisation.v)},
                            {"rotate", problem.quantisation.rotate ? 1 : 0},
                            {"output", to_string(problem.output_dtype())}};
  }
  return json;
}

// Returns the file that q, k, v come from.
Json input_file_json(const Case& point) {
  if (point.input == nullptr) return nullptr;
  Json json = {{"path", path_from_here(point.input->file.path).string()},
               {"fnv1a", fmt::format("{:016x}", point.input->file.hash)},
               {"dtype", to_string(point.input->problem.dtype)},
               {"do", nullptr}};
  if (point.problem.pass != Pass::fwd) json["do"] = point.input->dout.empty() ? "drawn" : "file";
  return json;
}

Json verify_json(const std::vector<reference::Verdict>& verdicts) {
  if (verdicts.empty()) return nullptr;
  Json json = Json::array();
  for (const reference::Verdict& verdict : verdicts) {
    Json entry = {{"tensor", verdict.tensor},
                  {"max_abs", number(verdict.max_abs)},
                  {"rel_fro", number(verdict.rel_fro)},
                  {"ratio_to_twin", number(verdict.ratio_to_twin)},
                  {"rms_to_twin", optional_number(verdict.rms_to_twin)},
                  {"bound", number(verdict.bound)},
                  {"coverage", number(verdict.coverage)},
                  {"compared", verdict.compared},
                  {"rows", verdict.rows},
                  {"pass", verdict.pass}};
    if (verdict.whole_heads) entry["whole_heads"] = true;
    const auto add_share = [&](const char* key, const std::optional<double>& share) {
      if (share) entry[key] = number(*share);
    };
    add_share("rmse_unquantised", verdict.rmse_unquantised);
    add_share("row_share", verdict.row_share);
    // Another bound has another name.
    add_share("drift", verdict.drift);
    add_share(verdict.drift ? "drift_share" : "slope_share", verdict.slope_share);
    add_share(verdict.drift ? "slice_drift_share" : "slice_slope_share", verdict.slice_slope_share);
    if (!verdict.failed_bound.empty()) entry["failed_bound"] = verdict.failed_bound;
    if (!verdict.message.empty()) entry["message"] = verdict.message;
    json.push_back(entry);
  }
  return json;
}

Json samples_json(const std::vector<double>& seconds) {
  Json samples = Json::array();
  for (double sample : seconds) samples.push_back(number(sample));
  return samples;
}

Json graph_json(const GraphTiming& graph) {
  return {{"median_s", number(graph.median_s)},
          {"q1_s", number(graph.q1_s)},
          {"q3_s", number(graph.q3_s)},
          {"min_s", number(graph.min_s)},
          {"n", graph.samples_s.size()},
          {"inner_launches", graph.inner_launches},
          {"samples_s", samples_json(graph.samples_s)}};
}

Json output_checks_json(const OutputChecks& outputs) {
  return {{"sets", outputs.sets},
          {"samples", outputs.samples},
          {"launches", outputs.launches},
          {"same_bits", optional(outputs.same_bits, [](bool same) { return Json(same); })},
          {"reason", outputs.reason}};
}

Json time_json(const Timing& time, const std::vector<int>& order, CacheState cache) {
  return {{"median_s", number(time.median_s)},
          {"q1_s", number(time.q1_s)},
          {"q3_s", number(time.q3_s)},
          {"min_s", number(time.min_s)},
          {"n", time.samples_s.size()},
          {"rounds_asked", time.rounds_asked},
          {"retries", optional(time.retries, [](int retries) { return Json(retries); })},
          {"at_work", optional_number(time.at_work)},
          {"inner_launches", time.inner_launches},
          {"contenders", time.contenders},
          {"samples_s", samples_json(time.samples_s)},
          {"ci95_s", Json::array({number(time.ci95_low_s), number(time.ci95_high_s)})},
          {"timer", time.timer},
          {"cache", to_string(cache)},
          {"telemetry", optional(time.telemetry, telemetry_json)},
          {"graph", optional(time.graph, graph_json)},
          {"outputs", optional(time.outputs, output_checks_json)},
          {"order", order}};
}

Json compile_json(const std::vector<Compilation>& compilations) {
  if (compilations.empty()) return nullptr;
  Json json = Json::array();
  for (const Compilation& unit : compilations) {
    Json entries = Json::array();
    for (const CompiledEntry& compiled : unit.entries) {
      entries.push_back({{"name", compiled.entry.name},
                         {"threads", compiled.entry.threads},
                         {"registers", compiled.registers},
                         {"spill_store_bytes", compiled.spill_store_bytes},
                         {"spill_load_bytes", compiled.spill_load_bytes},
                         {"stack_bytes", compiled.stack_bytes},
                         {"static_shared_bytes", compiled.static_shared_bytes},
                         {"dynamic_shared_bytes", compiled.entry.dynamic_shared_bytes},
                         {"blocks_per_multiprocessor", compiled.blocks_per_multiprocessor}});
    }
    json.push_back({{"unit", unit.unit},
                    {"arch", unit.arch},
                    {"compiler", unit.compiler},
                    {"text_sha256", unit.text_sha256.empty() ? Json() : Json(unit.text_sha256)},
                    {"compile_s", number(unit.seconds)},
                    {"from_cache", unit.from_cache},
                    {"entries", entries},
                    {"advisories", unit.advisories}});
  }
  return json;
}

Json quantise_json(const QuantiseRecord& quantise) {
  const std::optional<QuantiseTiming>& time = quantise.time;
  const auto seconds = [&time](double QuantiseTiming::*member) {
    return time ? number((*time).*member) : Json(nullptr);
  };
  return {{"median_s", seconds(&QuantiseTiming::median_s)},
          {"q1_s", seconds(&QuantiseTiming::q1_s)},
          {"q3_s", seconds(&QuantiseTiming::q3_s)},
          {"min_s", seconds(&QuantiseTiming::min_s)},
          {"n", time ? time->samples_s.size() : 0},
          {"inner_launches", time ? time->inner_launches : 0},
          {"samples_s", samples_json(time ? time->samples_s : std::vector<double>())},
          {"bytes", quantise.bytes},
          {"reason", quantise.reason},
          {"compile", compile_json(quantise.compilations)}};
}

Json flops_json(const Flops& flops) {
  return {{"useful", flops.useful},
          {"executed", optional(flops.executed, [](std::int64_t n) { return Json(n); })},
          {"paper", flops.paper}};
}

Json memory_json(const Memory& memory) {
  return {{"inputs_bytes", memory.inputs_bytes},
          {"outputs_bytes", memory.outputs_bytes},
          {"saved_bytes", memory.saved_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"peak_bytes", optional(memory.peak_bytes, [](std::uint64_t b) { return Json(b); })}};
}

// Returns the counted bytes; null where either count is missing.
Json counted_bytes_json(const std::optional<double>& read, const std::optional<double>& write) {
  if (!read || !write) return nullptr;
  return {{"read_bytes", number(*read)}, {"write_bytes", number(*write)}};
}

// Returns why there are no counted bytes, or what is wrong with them; "" if all is well.
std::string reason_of_counts(const std::optional<Counted>& counted, Backend backend) {
  if (counted) return counted->reason;
  return backend == Backend::cpu ? "no hardware counters on the CPU backend"
                                 : "the point ended before anything was counted";
}

Json traffic_json(const Record& record) {
  const Traffic& requested = *record.requested;
  const std::optional<Counted>& counted = record.counted;
  const HardwareCounts counts = counted ? counted->a_launch : HardwareCounts{};
  Json operands = Json::object();
  for (std::size_t i = 0; i < kOperands; ++i) {
    const OperandTraffic& operand = requested.operands[i];
    if (operand == OperandTraffic{}) continue;
    operands[to_string(static_cast<Operand>(i))] = {{"read_bytes", operand.read_bytes},
                                                    {"write_bytes", operand.write_bytes}};
  }
  const TileCounts& tiles = requested.tiles;
  return {{"compulsory_bytes",
           optional(record.compulsory_bytes, [](std::int64_t b) { return Json(b); })},
          {"requested_read_bytes", requested.read_bytes()},
          {"requested_write_bytes", requested.write_bytes()},
          {"requested", operands},
          {"tiles", {{"empty", tiles.empty}, {"partial", tiles.partial}, {"full", tiles.full}}},
          {"l2", counted_bytes_json(counts.l2_read_bytes, counts.l2_write_bytes)},
          {"dram", counted_bytes_json(counts.dram_read_bytes, counts.dram_write_bytes)},
          {"valid", counted && counted->valid},
          {"reason", reason_of_counts(counted, record.device.backend)}};
}

// Lists each symbol once, whatever shapes it was launched with.
Json symbols_json(const std::optional<Evidence>& evidence) {
  std::vector<std::string> symbols;
  if (!evidence || !evidence->executed) return symbols;
  for (const ExecutedKernel& kernel : *evidence->executed) {
    if (std::ranges::find(symbols, kernel.symbol) == symbols.end()) {
      symbols.push_back(kernel.symbol);
    }
  }
  return symbols;
}

Json peer_json(const PeerEvidence& peer, const std::optional<Evidence>& evidence) {
  return {{"version", peer.version},
          {"plan", peer.plan.empty() ? Json() : Json(peer.plan)},
          {"kernels", symbols_json(evidence)},
          {"verified_dropout", number(peer.verified_dropout)},
          {"peak_bytes", optional(peer.peak_bytes, [](std::uint64_t b) { return Json(b); })},
          {"launch_cost_hidden",
           optional(peer.launch_cost_hidden, [](bool hidden) { return Json(hidden); })}};
}

Json cuda_json(const Device& device) {
  return {{"compute_capability", device.compute_capability},
          {"multiprocessors", device.multiprocessors},
          {"l2_bytes", device.l2_bytes},
          {"max_clock_hz", number(device.max_clock_hz)},
          {"driver", device.driver},
          {"uuid", device.uuid},
          {"power_limit_w", optional_number(device.power_limit_w)}};
}

Json device_json(const Device& device) {
  return {{"backend", to_string(device.backend)},
          {"name", device.name},
          {"isa", device.isa},
          {"threads", device.threads},
          {"memory_bytes", device.memory_bytes},
          {"cache_bytes", device.cache_bytes},
          {"cuda", device.backend == Backend::cuda ? cuda_json(device) : Json()}};
}

Json protocol_json(const Protocol& protocol) {
  Json json = {{"min_rounds", protocol.min_rounds},
               {"max_rounds", protocol.max_rounds},
               {"max_seconds", number(protocol.max_seconds)},
               {"interval", number(protocol.interval)},
               {"warmup_seconds", number(protocol.warmup_seconds)},
               {"warmup_launches", protocol.warmup_launches},
               {"cache", to_string(protocol.cache)},
               {"regime", to_string(protocol.regime)}};
  if (protocol.regime == Regime::settled) json["turn_seconds"] = number(protocol.turn_seconds);
  json["verify_multiply_adds"] = protocol.verify_multiply_adds;
  if (protocol.verify_seconds != kReferenceSeconds) {
    json["verify_seconds"] = number(protocol.verify_seconds);
  }
  return json;
}

// Returns the name of this process: all that it times took turns on a machine in one state.
const std::string& run_id() {
  static const std::string kId = [] {
    std::random_device device;
    return fmt::format("{:08x}{:08x}", device(), device());
  }();
  return kId;
}

// Marks a commit whose kernels were compiled of another source tree: they are not the commit's.
Json build_json(const BuildInfo& build, const Record& record) {
  const bool of_sources =
      !record.compilations.empty() && !compiler_settings().source_folder.empty();
  return {{"version", build.version},
          {"commit", std::string(build.commit) + (of_sources ? "-sources" : "")},
          {"compiler", build.compiler},
          {"flags", build.flags}};
}

Json shard_json(const ShardOfPoint& shard) {
  return {{"index", shard.part.shard.index},
          {"of", shard.part.shard.of},
          {"cut", shard.part.cut},
          {"points", shard.part.points},
          {"sweep_points", shard.part.of_points},
          {"share", number(shard.share)}};
}

}  // namespace

Json to_json(const Record& record) {
  const Case& point = record.point;
  const Competitor& competitor = point.competitors.at(0);
  Json json = {{"schema", kRecordSchema},
               {"id", point.problem.id()},
               {"key", nullptr},
               {"sweep", record.sweep},
               {"shard", optional(record.shard, shard_json)},
               {"kernel", competitor.kernel},
               {"backend", to_string(competitor.backend)},
               {"config", config_json(competitor.config)},
               {"config_asked", config_asked_json(competitor)},
               {"problem", problem_json(point.problem, record.pattern)},
               {"input_kind", to_string(point.input_kind)},
               {"input_file", input_file_json(point)},
               {"seed", point.seed},
               {"status", to_string(record.status)},
               {"reason", record.reason}};
  json["verify"] = verify_json(record.verify);
  json["verify_timed"] = verify_json(record.verify_timed);
  json["time"] = optional(record.time, [&](const Timing& time) {
    return time_json(time, record.order, record.protocol.cache);
  });
  json["energy"] = optional(record.energy, energy_json);
  if (record.timeline) json["timeline"] = timeline_json(*record.timeline);
  if (record.quantise) json["quantise"] = quantise_json(*record.quantise);
  json["flops"] = optional(record.flops, flops_json);
  json["memory"] = optional(record.memory, memory_json);
  json["traffic"] = record.requested ? traffic_json(record) : Json();
  json["counters"] = counters_json(record.counted);
  json["cache_claim"] = optional(record.cache_claim, cache_claim_json);
  json["profile"] = nullptr;  // attnlab profile --import fills it
  json["evidence"] = record.evidence ? evidence_json(record) : Json();
  json["peer"] = optional(
      record.peer, [&](const PeerEvidence& peer) { return peer_json(peer, record.evidence); });
  json["roof"] = optional(record.roof, roof_json);
  json["compile"] = compile_json(record.compilations);
  json["device"] = device_json(record.device);
  json["protocol"] = protocol_json(record.protocol);
  json["build"] = build_json(build_info(), record);
  json["command_line"] = record.command_line;
  json["run"] = run_id();
  json["timestamp"] = record.timestamp;
  json["key"] = record_key(json);
  if (record.evidence) json["evidence"]["beyond"] = kernels_beyond(json);
  return json;
}

std::string record_key(const Json& record) {
  std::string config;
  for (const auto& [name, value] : record.at("config").items()) {
    config += fmt::format("{}{}={}", config.empty() ? "" : ",", name, value.get<std::int64_t>());
  }
  std::string inputs = record.at("input_kind").get<std::string>();
  if (const auto file = record.find("input_file"); file != record.end() && file->is_object()) {
    inputs += ":" + file->at("fnv1a").get<std::string>();
  }
  // Records that are older than the choice have no protocol.cache: they were hot.
  const std::string cache = record.at("protocol").value("cache", to_string(CacheState::hot));
  return fmt::format("{}/{}/{}/{}/{}/seed{}/{}", record.at("id").get<std::string>(),
                     record.at("kernel").get<std::string>(),
                     record.at("backend").get<std::string>(), config.empty() ? "default" : config,
                     inputs, record.at("seed").get<std::uint64_t>(), cache);
}

Json asked_config(const Json& record) {
  const auto asked = record.find("config_asked");
  return asked != record.end() && asked->is_object() ? *asked : record.value("config", Json());
}

std::string asked_key(const Json& record) {
  Json asked = record;
  asked["config"] = asked_config(record);
  return record_key(asked);
}

std::string device_key(const Json& record) {
  const Json device = record.value("device", Json::object());
  std::string key = device.value("name", Json()).dump();
  if (record.value("backend", Json()) == to_string(Backend::cpu)) {
    for (const char* part : {"isa", "threads"}) key += " " + device.value(part, Json()).dump();
  }
  return key;
}

std::string way_of_measuring(const Json& record) {
  const Json protocol = record.value("protocol", Json::object());
  return fmt::format("{}, {}, {}", device_key(record), protocol.value("cache", "hot"),
                     protocol.value("regime", "burst"));
}

Dtype dtype_of(const Json& record) {
  const Json dtype = record.at("problem").at("dtype");
  for (const Dtype known : {Dtype::f16, Dtype::bf16, Dtype::e4m3}) {
    if (dtype == to_string(known)) return known;
  }
  return Dtype::f32;
}

std::vector<Json> last_of_each_point(const std::vector<Json>& records,
                                     std::string (*of)(const Json& record)) {
  const auto key_of = [of](const Json& record) { return record_key(record) + of(record); };
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < records.size(); ++i) last[key_of(records[i])] = i;
  std::vector<Json> kept;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (last[key_of(records[i])] == i) kept.push_back(records[i]);
  }
  return kept;
}

}  // namespace attnlab
