#include "harness/record_parts.h"

#include <algorithm>
#include <cmath>

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

bool all_pass(const std::vector<reference::Verdict>& verdicts) {
  return !verdicts.empty() && std::ranges::all_of(verdicts, &reference::Verdict::pass);
}

Json bytes_json(const std::optional<std::uint64_t>& bytes) {
  return bytes ? Json(*bytes) : Json(nullptr);
}

// Of a multiprocessor's cycles with a warp on it, those with a tensor pipe at work.
std::optional<double> tensor_active_percent(const HardwareCounts& counts) {
  if (!counts.tensor_active_cycles || !counts.active_cycles) return std::nullopt;
  if (!(*counts.active_cycles > 0.0)) return std::nullopt;
  return 100.0 * *counts.tensor_active_cycles / *counts.active_cycles;
}

const char* to_string(L2State state) { return state == L2State::steady ? "steady" : "swept"; }

}  // namespace

const char* to_string(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::proved: return "proved";
    case ClaimVerdict::unproved: return "unproved";
    case ClaimVerdict::rejected: return "rejected";
  }
  return "?";
}

Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json number_json(const std::optional<double>& value) {
  return value ? number_json(*value) : Json(nullptr);
}

Json executed_json(const ExecutedKernel& kernel) {
  return {{"symbol", kernel.symbol},
          {"grid", kernel.grid},
          {"block", kernel.block},
          {"registers", kernel.registers},
          {"static_shared_bytes", bytes_json(kernel.static_shared_bytes)},
          {"dynamic_shared_bytes", bytes_json(kernel.dynamic_shared_bytes)},
          {"shared_bytes", bytes_json(kernel.shared_bytes)},
          {"launches", kernel.launches}};
}

Json evidence_json(const Record& record) {
  if (!record.evidence) return nullptr;
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
          {"as_asked", evidence.as_asked ? Json(*evidence.as_asked) : Json(nullptr)},
          {"verified", all_pass(record.verify) && all_pass(record.verify_timed)},
          {"timed", record.time.has_value()},
          {"reason", evidence.reason}};
}

Json counters_json(const std::optional<Counted>& counted) {
  if (!counted || counted->a_launch.metrics.empty()) return nullptr;
  const HardwareCounts& counts = counted->a_launch;
  return {{"launches", counted->launches},
          {"l2", to_string(counted->l2)},
          {"tensor_active_percent", number_json(tensor_active_percent(counts))},
          {"wgmma_flops", number_json(counts.wgmma_flops)},
          {"mma_sync_flops", number_json(counts.mma_sync_flops)},
          {"atomic_bytes", number_json(counts.atomic_bytes)},
          {"reduction_bytes", number_json(counts.reduction_bytes)},
          {"multiprocessor_clock_hz", number_json(counts.multiprocessor_clock_hz)},
          {"metrics", counts.metrics}};
}

Json cache_claim_json(const std::optional<CacheClaim>& claim) {
  if (!claim) return nullptr;
  return {{"claim", to_string(claim->claim)},
          {"verdict", to_string(claim->verdict)},
          {"dram_reads_of_compulsory", number_json(claim->dram_reads_of_compulsory)},
          {"reason", claim->reason}};
}

}  // namespace attnlab
