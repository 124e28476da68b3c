#include "harness/report/model_kernels.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/plan/accounting.h"
#include "harness/plan/axis_values.h"
#include "harness/plan/builtin_axes.h"
#include "harness/plan/model.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

Json operands_json(const Traffic& traffic) {
  Json operands = Json::object();
  for (std::size_t i = 0; i < kOperands; ++i) {
    const auto& [read_bytes, write_bytes] = traffic.operands[i];
    if (read_bytes == 0 && write_bytes == 0) continue;
    operands[to_string(static_cast<Operand>(i))] = {{"read_bytes", read_bytes},
                                                    {"write_bytes", write_bytes}};
  }
  return operands;
}

// Returns what a forward leaves for a backward, whatever the point's own pass; null where the
// kernel has no backward.
Json saved_json(const Problem& problem, const Competitor& competitor, const Device& device) {
  Problem both = problem;
  both.pass = Pass::fwdbwd;
  const Implementation& kernel = *competitor.implementation;
  // The competitor's config is not asked about: only forwards alone may have it.
  if (!kernel.unsupported(both, default_config(kernel), device).empty()) return nullptr;
  const Config config =
      problem.pass == Pass::bwd ? forward_config(kernel, competitor.config) : competitor.config;
  return lse_bytes(problem) + static_cast<std::int64_t>(kernel.saved_bytes(both, config));
}

// Returns what the kernel holds at once, as attnlab run --dry-run says.
Json memory_json(const Problem& problem, const Competitor& competitor, const Device& device) {
  const Memory memory = most_memory(problem, competitor, device);
  return {{"inputs_bytes", memory.inputs_bytes},
          {"outputs_bytes", memory.outputs_bytes},
          {"saved_bytes", memory.saved_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"peak_bytes", *memory.peak_bytes}};
}

// Returns "v2 128x128": the block, and what else was asked for and is not a default.
std::string kernel_label(const Competitor& competitor) {
  std::string label = competitor.kernel;
  if (competitor.implementation == nullptr) return label;
  const Config& config = competitor.config;
  const auto block = [&](const char* axis) {
    return config.contains(axis) ? config.get(axis) : std::int64_t{0};
  };
  if (block("block_m") > 0 && block("block_n") > 0) {
    label += fmt::format(" {}x{}", block("block_m"), block("block_n"));
  }
  const Config defaults = default_config(*competitor.implementation);
  const Config& asked = competitor.asked.values().empty() ? config : competitor.asked;
  for (const auto& [name, value] : asked.values()) {
    if (!is_block_axis(name) && value != defaults.get(name)) {
      label += fmt::format(" {}={}", name, value);
    }
  }
  return label;
}

// Returns the axes whose values tell points and kernels apart, as text.
Json axes_json(const Case& work, const Competitor& competitor) {
  Json axes = Json::object();
  for (const AxisGrammar& axis : builtin_grammars().rows()) {
    axes[axis.help.name] = axis.value_of(work, competitor);
  }
  return axes;
}

}  // namespace

std::string too_many_tiles(const Problem& problem, const Config& config) {
  constexpr double kMostTiles = 0x1p28;
  constexpr std::int64_t kUsualBlock = 64;
  const auto blocks = [&](const char* axis, std::int64_t seqlen) {
    const std::int64_t given = config.contains(axis) ? config.get(axis) : 0;
    const std::int64_t size = given > 0 ? given : kUsualBlock;
    const std::int64_t count = (seqlen + size - 1) / size;
    return static_cast<double>(count);
  };
  const bool dense = problem.lengths.kind == LengthsKind::dense;
  const double entries = dense ? 1.0 : static_cast<double>(problem.batch);
  const double tiles =
      entries * blocks("block_m", problem.seqlen_q) * blocks("block_n", problem.seqlen_k);
  return tiles > kMostTiles ? "more than 2^28 tiles to count; ask for larger ones with --block"
                            : "";
}

Json ratio(double numerator, double denominator) {
  return denominator > 0.0 ? Json(numerator / denominator) : Json(nullptr);
}

Json counts_json(const TileCounts& counts) {
  return {{"empty", counts.empty}, {"partial", counts.partial}, {"full", counts.full}};
}

Json traffic_json(const Traffic& traffic, std::int64_t useful_flops) {
  const std::int64_t bytes = traffic.read_bytes() + traffic.write_bytes();
  return {{"read_bytes", traffic.read_bytes()},
          {"write_bytes", traffic.write_bytes()},
          {"bytes", bytes},
          {"useful_flops_per_byte",
           ratio(static_cast<double>(useful_flops), static_cast<double>(bytes))},
          {"operands", operands_json(traffic)}};
}

Json kernel_json(const Case& work, const Competitor& competitor, const Device& device,
                 const Json& point) {
  const Problem& problem = work.problem;
  Json config = Json::object();
  for (const auto& [name, value] : competitor.config.values()) config[name] = value;
  Json kernel = {{"kernel", competitor.kernel},
                 {"backend", to_string(competitor.backend)},
                 {"config", config},
                 {"label", kernel_label(competitor)},
                 {"status", "counted"},
                 {"reason", ""},
                 {"executed_flops", nullptr},
                 {"executed_per_useful", nullptr},
                 {"requested", nullptr},
                 {"requested_per_compulsory", nullptr},
                 {"tiles", nullptr},
                 {"saved_bytes", nullptr},
                 {"memory", nullptr},
                 {"axes", axes_json(work, competitor)}};
  const auto leave_out = [&](const char* status, const std::string& reason) {
    kernel["status"] = status;
    kernel["reason"] = reason;
    return kernel;
  };
  if (!competitor.skipped.empty()) return leave_out("skipped", competitor.skipped);
  if (!competitor.unsupported.empty()) return leave_out("unsupported", competitor.unsupported);
  if (const std::string reason = point["reason"]; !reason.empty()) {
    return leave_out("uncounted", reason);
  }
  kernel["memory"] = memory_json(problem, competitor, device);
  if (const std::string reason = too_many_tiles(problem, competitor.config); !reason.empty()) {
    return leave_out("uncounted", reason);
  }
  const Traffic traffic = competitor.implementation->traffic(problem, competitor.config);
  kernel["executed_flops"] = traffic.executed_flops;
  const Json& useful = point["work"]["useful_flops"];
  kernel["executed_per_useful"] =
      ratio(static_cast<double>(traffic.executed_flops), useful.get<double>());
  kernel["requested"] = traffic_json(traffic, useful.get<std::int64_t>());
  kernel["requested_per_compulsory"] =
      ratio(kernel["requested"]["bytes"].get<double>(), point["compulsory"]["bytes"].get<double>());
  kernel["tiles"] = counts_json(traffic.tiles);
  kernel["saved_bytes"] = saved_json(problem, competitor, device);
  return kernel;
}

}  // namespace attnlab
