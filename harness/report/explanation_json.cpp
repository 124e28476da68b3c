// Writes an explanation as JSON: every number, null where there is none.
#include <nlohmann/json.hpp>

#include "harness/report/explanation.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json text(const std::string& words) { return words.empty() ? Json() : Json(words); }

Json finding_json(const LimiterShare& finding) {
  return {{"limiter", to_string(finding.limiter)}, {"binds", finding.binds()},
          {"share", number(finding.share)},        {"number", text(finding.number)},
          {"source", text(finding.source)},        {"reason", text(finding.reason)}};
}

Json counts_json(const Counts& counts) {
  return {{"executed_flops", number(counts.executed_flops)},
          {"useful_flops", number(counts.useful_flops)},
          {"compulsory_bytes", number(counts.compulsory_bytes)},
          {"requested_bytes", number(counts.requested_bytes)},
          {"l2_bytes", number(counts.l2_bytes)},
          {"dram_bytes", number(counts.dram_bytes)},
          {"full_tiles", number(counts.full_tiles)},
          {"partial_tiles", number(counts.partial_tiles)},
          {"empty_tiles", number(counts.empty_tiles)},
          {"threads", number(counts.threads)},
          {"registers", number(counts.registers)},
          {"shared_bytes", number(counts.shared_bytes)},
          {"blocks_per_multiprocessor", number(counts.blocks_per_multiprocessor)},
          {"spill_bytes", number(counts.spill_bytes)},
          {"counted_clock_hz", number(counts.counted_clock_hz)}};
}

Json tile_json(const TileFact& tile) {
  Json config = Json::object();
  for (const auto& [name, value] : tile.config.values()) config[name] = value;
  return {{"change", tile.change},
          {"config", config},
          {"reason", text(tile.reason)},
          {"items", number(tile.items)},
          {"requested_bytes", number(tile.bytes)},
          {"executed_flops", number(tile.flops)},
          {"shared_bytes", number(tile.shared_bytes)},
          {"registers", number(tile.registers)},
          {"median_s", number(tile.median_s)},
          {"command", tile.command}};
}

Json tiles_json(const TileFacts& tiles) {
  Json all = Json::array();
  if (!tiles.reason.empty()) return all;
  all.push_back(tile_json(tiles.own));
  for (const TileFact& tile : tiles.neighbours) all.push_back(tile_json(tile));
  return all;
}

Json advice_json(const Advice& advice) {
  Json cited = Json::array();
  for (const Cited& one : advice.cited) {
    cited.push_back({{"source", one.source}, {"value", one.value}, {"shown", one.shown}});
  }
  return {{"sentence", advice.sentence}, {"cited", cited}, {"command", text(advice.command)}};
}

}  // namespace

Json to_json(const Explanation& explanation) {
  Json findings = Json::array();
  for (const LimiterShare& finding : explanation.findings)
    findings.push_back(finding_json(finding));
  const LimiterShare* const limiter = explanation.limiter();
  const Waves& waves = explanation.waves;
  return {{"schema", kExplanationSchema},
          {"id", explanation.id},
          {"kernel", explanation.kernel},
          {"config", text(explanation.config)},
          {"device", explanation.device},
          {"state", explanation.state},
          {"status", explanation.status},
          {"reason", text(explanation.reason)},
          {"measured", explanation.is_measured},
          {"seconds", number(explanation.seconds)},
          {"limiter", limiter == nullptr ? Json() : Json(to_string(limiter->limiter))},
          {"findings", findings},
          {"counts", counts_json(explanation.counts)},
          {"items", number(waves.items)},
          {"places", number(waves.places)},
          {"tiles", tiles_json(explanation.tiles)},
          {"tiles_reason", text(explanation.tiles.reason)},
          {"next", explanation.next ? advice_json(*explanation.next) : Json()}};
}

}  // namespace attnlab
