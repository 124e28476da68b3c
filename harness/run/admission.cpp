#include "harness/run/admission.h"

#include <fmt/format.h>

#include <string>

#include "harness/plan/accounting.h"
#include "harness/record/repro.h"

namespace attnlab {
namespace {

std::string gib(std::uint64_t bytes) {
  return fmt::format("{:.3g} GiB", static_cast<double>(bytes) / 0x1p30);
}

}  // namespace

void Admission::admit(CompetitorRun& run) {
  const Case& work = run.record.point;
  const Problem& problem = work.problem;
  const Competitor& competitor = *run.competitor;
  Record& record = run.record;
  if (run.peer) {
    record.flops = count_flops(problem, std::nullopt);
    return;
  }
  record.memory = memory_needed(problem, competitor, *context_.device);
  record.compulsory_bytes = compulsory_bytes(problem);
  record.requested = run.kernel().traffic(problem, competitor.config);
  record.flops = count_flops(problem, record.requested->executed_flops);

  const Memory& memory = *record.memory;
  const std::uint64_t limit = context_.memory_limit_bytes;
  const std::uint64_t alone = most_bytes(problem, competitor, *context_.device);
  const std::uint64_t outputs = memory.outputs_bytes + memory.saved_bytes;
  const std::uint64_t own_workspace = alone - memory.inputs_bytes - outputs;
  if (alone > limit) {
    throw Ending{Status::out_of_memory,
                 fmt::format("needs {} (inputs {}, outputs {}, workspace {}) of {} available: "
                             "shorten the sequences, take fewer heads or a smaller batch, or a "
                             "kernel that needs less workspace",
                             gib(alone), gib(memory.inputs_bytes), gib(outputs), gib(own_workspace),
                             gib(limit))};
  }
  const std::uint64_t together = admitted_.bytes_with(problem, competitor, *context_.device);
  if (together > limit) {
    throw run_alone(run, fmt::format("needs {} beside the outputs of the others, of {} available:",
                                     gib(together), gib(limit)));
  }
  admitted_.add(problem, competitor, *context_.device);
}

Ending Admission::refusal(const CompetitorRun& run) const {
  const std::string why =
      fmt::format("needs {} beside the inputs, more than is free: end other programs on the device",
                  gib(own_bytes(run)));
  if (!run.peer) return run_alone(run, why + ", or");
  return {Status::out_of_memory, why + ", or name fewer kernels with --kernel"};
}

Ending Admission::run_alone(const CompetitorRun& run, const std::string& why) const {
  return {Status::out_of_memory, fmt::format("{} run it alone, {}", why,
                                             repro_command(run.record.point, *run.competitor,
                                                           *context_.device, context_.protocol))};
}

std::uint64_t own_bytes(const CompetitorRun& run) {
  if (run.peer) {
    return bytes_of_inputs(run.problem()) + run.record.peer->peak_bytes.value_or(0);
  }
  return run.record.memory->peak_bytes.value() - bytes_of_inputs(run.problem());
}

bool Admission::admit_references(std::uint64_t bytes) {
  if (admitted_.bytes() + spare_bytes_ + bytes > context_.memory_limit_bytes) return false;
  spare_bytes_ += bytes;
  return true;
}

bool Admission::admit_spare(CompetitorRun& run) {
  const Problem& problem = run.record.point.problem;
  const std::uint64_t spare = bytes_of_outputs(problem, *run.competitor);
  const std::uint64_t needed = admitted_.bytes() + spare_bytes_ + spare;
  if (needed > context_.memory_limit_bytes) {
    run.why_no_spare = fmt::format("a second set of outputs needs {}, in all {} of {} available",
                                   gib(spare), gib(needed), gib(context_.memory_limit_bytes));
    return false;
  }
  spare_bytes_ += spare;
  return true;
}

}  // namespace attnlab
