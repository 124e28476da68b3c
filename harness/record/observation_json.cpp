#include "harness/record/json_parts.h"

#include <algorithm>

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

bool all_pass(const std::vector<reference::Verdict>& verdicts) {
  return !verdicts.empty() && std::ranges::all_of(verdicts, &reference::Verdict::pass);
}

const char* to_string(L2State state) { return state == L2State::steady ? "steady" : "swept"; }

}  // namespace

std::optional<double> tensor_active_percent(const HardwareCounts& counts) {
  if (!counts.tensor_active_cycles || !counts.active_cycles) return std::nullopt;
  if (!(*counts.active_cycles > 0.0)) return std::nullopt;
  return 100.0 * *counts.tensor_active_cycles / *counts.active_cycles;
}

Json executed_json(const ExecutedKernel& kernel) {
  const bool has_shape = kernel.grid[0] != 0;  // a peer's operators on a CPU have none
  Json json = {
      {"symbol", kernel.symbol},
      {"grid", has_shape ? Json(kernel.grid) : Json(nullptr)},
      {"block", has_shape ? Json(kernel.block) : Json(nullptr)},
      {"registers", has_shape ? Json(kernel.registers) : Json(nullptr)},
      {"static_shared_bytes",
       optional(kernel.static_shared_bytes, [](std::uint64_t b) { return Json(b); })},
      {"dynamic_shared_bytes",
       optional(kernel.dynamic_shared_bytes, [](std::uint64_t b) { return Json(b); })},
      {"shared_bytes", optional(kernel.shared_bytes, [](std::uint64_t b) { return Json(b); })},
      {"launches", kernel.launches}};
  if (kernel.seconds) json["seconds"] = number(*kernel.seconds);
  return json;
}

Json evidence_json(const Record& record) {
  const Evidence& evidence = *record.evidence;
  const Competitor& competitor = record.point.competitors.at(0);
  Json config = Json::object();
  for (const auto& [name, value] : competitor.config.values()) config[name] = value;
  Json executed;
  if (evidence.executed) {
    executed = Json::array();
    for (const ExecutedKernel& kernel : *evidence.executed) {
      executed.push_back(executed_json(kernel));
    }
  }
  return {{"requested",
           {{"kernel", competitor.kernel},
            {"backend", to_string(competitor.backend)},
            {"config", config}}},
          {"executed", executed},
          {"as_asked", optional(evidence.as_asked, [](bool yes) { return Json(yes); })},
          {"verified", all_pass(record.verify) && all_pass(record.verify_timed)},
          {"timed", record.time.has_value()},
          {"reason", evidence.reason}};
}

Json counters_json(const std::optional<Counted>& counted) {
  if (!counted || counted->a_launch.metrics.empty()) return nullptr;
  const HardwareCounts& counts = counted->a_launch;
  return {{"launches", counted->launches},
          {"l2", to_string(counted->l2)},
          {"seconds", number(counted->seconds)},
          {"sm_read_bytes", optional_number(counts.sm_read_bytes)},
          {"tensor_active_percent", optional_number(tensor_active_percent(counts))},
          {"active_cycles", optional_number(counts.active_cycles)},
          {"elapsed_cycles", optional_number(counts.elapsed_cycles)},
          {"wgmma_flops", optional_number(counts.wgmma_flops)},
          {"mma_sync_flops", optional_number(counts.mma_sync_flops)},
          {"tensor_flops_of_executed", optional_number(counted->tensor_flops_of_executed)},
          {"atomic_bytes", optional_number(counts.atomic_bytes)},
          {"reduction_bytes", optional_number(counts.reduction_bytes)},
          {"shared_wavefronts", optional_number(counts.shared_wavefronts)},
          {"shared_load_conflicts", optional_number(counts.shared_load_conflicts)},
          {"shared_store_conflicts", optional_number(counts.shared_store_conflicts)},
          {"multiprocessor_clock_hz", optional_number(counts.multiprocessor_clock_hz)},
          {"metrics", counts.metrics}};
}

Json timeline_json(const TimelineRecord& timeline) {
  return {{"items", timeline.items},
          {"median_s", number(timeline.median_s)},
          {"timed_median_s", number(timeline.timed_median_s)},
          {"void", !timeline.reason.empty()},
          {"reason", timeline.reason},
          {"idle_share_at_end", optional_number(timeline.idle_share_at_end)},
          {"claim_to_begin_s", optional_number(timeline.claim_to_begin_s)},
          {"describe_cycles", optional_number(timeline.describe_cycles)}};
}

Json cache_claim_json(const CacheClaim& claim) {
  return {{"claim", to_string(claim.claim)},
          {"verdict", to_string(claim.verdict)},
          {"dram_reads_of_compulsory", optional_number(claim.dram_reads_of_compulsory)},
          {"reason", claim.reason}};
}

}  // namespace attnlab
