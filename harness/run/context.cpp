#include "harness/run/context.h"

#include "harness/plan/accounting.h"

namespace attnlab {

Record planned_record(const Case& work, const Competitor& competitor, const RunContext& context) {
  return {.point = {work.problem, work.input_kind, work.seed, {competitor}, work.input},
          .sweep = context.sweep_name,
          .pattern = summarize_pattern(work.problem),
          .device = *context.device,
          .protocol = context.protocol,
          .command_line = context.command_line};
}

}  // namespace attnlab
