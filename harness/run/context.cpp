#include "harness/run/context.h"

#include "harness/plan/accounting.h"
#include "harness/plan/cost.h"

namespace attnlab {
namespace {

std::optional<ShardOfPoint> shard_of(const Case& work, const Competitor& competitor,
                                     const RunContext& context) {
  if (!context.shard) return std::nullopt;
  const double weight = point_weight(work.problem, competitor, context.protocol);
  const double all = context.shard->weight;
  return ShardOfPoint{.part = *context.shard, .share = all > 0.0 ? weight / all : 0.0};
}

}  // namespace

Record planned_record(const Case& work, const Competitor& competitor, const RunContext& context) {
  return {.point = {work.problem, work.input_kind, work.seed, {competitor}, work.input},
          .sweep = context.sweep_name,
          .shard = shard_of(work, competitor, context),
          .pattern = summarize_pattern(work.problem),
          .device = *context.device,
          .protocol = context.protocol,
          .command_line = context.command_line};
}

}  // namespace attnlab
