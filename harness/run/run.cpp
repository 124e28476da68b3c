#include "harness/run/run.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/derive_seed.h"
#include "harness/measure/energy.h"
#include "harness/plan/accounting.h"
#include "harness/plan/turns_memory.h"
#include "harness/record/readings.h"
#include "harness/run/admission.h"
#include "harness/run/case_steps.h"
#include "harness/run/case_timing.h"
#include "harness/run/contenders.h"
#include "harness/run/entrants.h"
#include "harness/run/input_rotation.h"
#include "harness/run/judging.h"
#include "harness/run/observation.h"
#include "harness/run/reference_cache.h"
#include "harness/run/whole_reference.h"
#include "harness/tensors/inputs.h"
#include "kernels/api/ranges.h"
#include "kernels/api/runtime.h"
#include "reference/oracle.h"

namespace attnlab {

namespace {

// What those share that compete on a case of a group: the same numbers, in its layout.
struct Lane {
  Lane(const Case& own, const RunContext& context, Arena& arena)
      : work(own),
        inputs(arena, own.problem, own.input_kind, own.seed, context.device->threads,
               own.input.get()) {}

  const Case& work;
  Inputs inputs;
  std::optional<Judge> judge;
  std::optional<PeerInputs> peer_inputs;
};

class GroupRun {
 public:
  GroupRun(std::span<const Case> group, const RunContext& context, Progress& progress,
           const Entrants::Finished& finished)
      : group_(group),
        context_(context),
        steps_(group, context, progress),
        admission_(context),
        entrants_(group, context, finished) {}

  void run() {
    entrants_.enter();
    for (Entrant* entrant : running()) attempt(*entrant, [&] { admission_.admit(*entrant); });
    if (!running().empty()) entrants_.attempt_for_all([&] { prepare_lanes(); });
    for (Entrant* entrant : running()) {
      steps_.begin("verify " + entrant->name(), verifying(*entrant));
      attempt(*entrant, [&] { verify(*entrant); });
      steps_.advance(kVerifyShare * point_weight(entrant->problem(), *entrant->competitor));
    }
    if (!running().empty()) entrants_.attempt_for_all([&] { time(); });
    for (Entrant* entrant : running()) {
      steps_.begin("verify again " + entrant->name(), verifying(*entrant));
      attempt(*entrant, [&] {
        judge_again(*entrant);
        if (observes(*entrant)) {
          steps_.begin("observe " + entrant->name(), &Spending::observation);
          observe(*entrant, *context_.observers, *context_.device);
        }
        if (context_.measures_energy) {
          steps_.begin("energy " + entrant->name(), &Spending::observation);
          measure_energy_of(*entrant);
        }
      });
      if (!entrant->finished) entrants_.finish(*entrant, {Status::ok, ""});
    }
    entrants_.hand_out();
    steps_.advance(steps_.remaining());
  }

 private:
  static constexpr double kVerifyShare = 0.3;  // of a competitor's weight; timing is the rest

  static double Spending::*verifying(const Entrant& entrant) {
    return entrant.peer ? &Spending::peers : &Spending::verification;
  }

  // Inputs in each layout in which somebody runs, and the oracle, once for all competitors.
  void prepare_lanes() {
    arena_.emplace(runtime_of(*context_.device));
    steps_.begin("inputs", &Spending::inputs);
    for (const Case& work : group_) {
      const bool is_run = std::ranges::any_of(running(), [&](const Entrant* entrant) {
        return entrant->problem().layout == work.problem.layout;
      });
      if (is_run) lanes_.push_back(std::make_unique<Lane>(work, context_, *arena_));
    }
    steps_.begin("oracle", &Spending::references);
    const Case& first = lanes_.front()->work;
    // Not the same rows and heads in every point: what is wrong in one place is met somewhere.
    const std::uint64_t seed = derive_seed(first.seed, first.problem.id());
    references_.emplace(
        first.problem, lanes_.front()->inputs.host(),
        reference::choose_samples(first.problem, context_.protocol.verify_multiply_adds, seed),
        context_.device->threads);
    if (context_.device->backend == Backend::cuda) {
      whole_.emplace(first.problem, lanes_.front()->inputs.tensors(), *context_.device, seed);
      if (!admission_.admit_references(whole_->bytes())) whole_.reset();
    }
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      lane->judge.emplace(lane->work, context_, lane->inputs.host(), *references_,
                          whole_ ? &*whole_ : nullptr);
    }
    for (const Entrant* entrant : running()) lane_of(*entrant).judge->make_references(*entrant);
  }

  // A group has each layout once.
  Lane& lane_of(const Entrant& entrant) {
    return **std::ranges::find_if(lanes_, [&](const std::unique_ptr<Lane>& lane) {
      return lane->work.problem.layout == entrant.problem().layout;
    });
  }

  // The first launch, and the peak of the memory: the inputs and this competitor's own, without
  // what the forwards of earlier ones left.
  void verify(Entrant& entrant) {
    if (entrant.peer) return verify_peer(entrant);
    const Problem& problem = entrant.problem();
    Lane& lane = lane_of(entrant);
    entrant.compile(problem, *context_.device);
    const std::uint64_t of_others = arena_->current_bytes() - bytes_of_inputs(problem);
    if (problem.pass == Pass::bwd) {
      lane.judge->judge_damage(
          entrant, entrant.run_forward(*arena_, problem, *context_.device, lane.inputs.tensors()));
    }
    arena_->reset_peak();
    const Outputs outputs = entrant.make_outputs(*arena_, problem);
    const Arena::Buffer workspace = arena_->allocate("workspace", entrant.workspace_bytes());
    entrant.prepared = entrant.prepare(problem, *context_.device);
    const Tensors tensors = entrant.attach(lane.inputs.tensors(), outputs, workspace);
    entrant.launch(tensors, arena_->runtime());
    entrant.record.memory->peak_bytes = arena_->peak_bytes() - of_others;
    lane.judge->judge(entrant, tensors, *arena_, entrant.record.verify);
  }

  void verify_peer(Entrant& entrant) {
    const Problem& problem = entrant.problem();
    Lane& lane = lane_of(entrant);
    if (!lane.peer_inputs) {
      lane.peer_inputs.emplace(problem, lane.inputs.host(), lane.inputs.tensors(),
                               arena_->runtime());
    }
    const int sets = InputRotation::count(problem, *context_.device, context_.protocol);
    const PeerOutputs outputs = entrant.peer->prepare(*lane.peer_inputs, {.input_sets = sets});
    entrant.record.peer =
        PeerEvidence{.version = entrant.peer->version(), .peak_bytes = entrant.peer->peak_bytes()};
    // It has checked itself that the backend that was asked for ran.
    entrant.record.evidence = Evidence{.executed = entrant.peer->kernels(), .as_asked = true};
    lane.judge->judge_peer(entrant, outputs, entrant.record.verify);
  }

  // New outputs, full of NaN again: what is verified afterwards was written by timed launches.
  void time() {
    workspace_.emplace(arena_->allocate("workspace", admission_.workspace_bytes()));
    for (Entrant* entrant : running()) {
      if (entrant->peer) continue;
      entrant->outputs.emplace(entrant->make_outputs(*arena_, entrant->problem()));
      entrant->tensors =
          entrant->attach(lane_of(*entrant).inputs.tensors(), *entrant->outputs, *workspace_);
    }
    if (context_.profile_launches > 0) return profile();
    rotation_.emplace(*arena_, *context_.device, context_.protocol);
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      rotation_->add(lane->work.problem, lane->inputs);
    }
    for (Entrant* entrant : running()) {
      if (!entrant->peer && admission_.admit_spare(*entrant)) make_spare(*entrant);
    }
    time_case(entrants_, *rotation_, *arena_, context_, steps_);
  }

  void make_spare(Entrant& entrant) try {
    entrant.spare.emplace(entrant.make_outputs(*arena_, entrant.problem()));
  } catch (const std::bad_alloc&) {
    entrant.why_no_spare = "the device has no memory left for a second set of outputs";
  }

  // In place of timing: launches for a profiler to watch, which makes them slow.
  void profile() {
    steps_.begin("profile", &Spending::timing);
    for (Entrant* entrant : running()) {
      attempt(*entrant, [&] {
        const ProfilerRange range(entrant->name());
        for (int i = 0; i < context_.profile_launches; ++i) {
          entrant->launch(entrant->tensors, arena_->runtime());
        }
        arena_->runtime().synchronize();
      });
    }
  }

  // Of what the last timed launch left.
  void judge_again(Entrant& entrant) {
    Judge& judge = *lane_of(entrant).judge;
    if (entrant.peer) {
      judge.judge_peer(entrant, entrant.peer->outputs(), entrant.record.verify_timed);
    } else {
      judge.judge(entrant, entrant.tensors, *arena_, entrant.record.verify_timed);
    }
  }

  // What runs in another process is out of sight.
  bool observes(const Entrant& entrant) const {
    return context_.observers != nullptr && entrant.launch_next;
  }

  // After all times, for the device is hot then.
  void measure_energy_of(Entrant& entrant) {
    if (context_.telemetry == nullptr) {
      entrant.record.energy = EnergyRecord{.reason = "no telemetry of the device"};
      return;
    }
    const Contenders contenders = make_contenders({&entrant}, *rotation_, arena_->runtime(),
                                                  [this] { steps_.stop_if_interrupted(); });
    entrant.record.energy =
        measure_energy(contenders.queued.at(0), entrant.record.time->median_s,
                       static_cast<double>(useful_flops(entrant.problem())), *context_.telemetry);
  }

  std::vector<Entrant*> running() { return entrants_.running(); }

  void attempt(Entrant& entrant, const std::function<void()>& step) {
    entrants_.attempt(entrant, step);
  }

  std::span<const Case> group_;
  const RunContext& context_;
  CaseSteps steps_;
  Admission admission_;
  std::optional<Arena> arena_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // of the layouts in which somebody runs
  std::optional<ReferenceCache> references_;  // of all of them
  std::optional<WholeReference> whole_;       // on a GPU, likewise
  std::optional<Arena::Buffer> workspace_;    // of the timed launches, and their inputs
  std::optional<InputRotation> rotation_;
  Entrants entrants_;
};

}  // namespace

void run_case(const Case& work, const RunContext& context, Progress& progress,
              const std::function<void(const std::vector<Record>&)>& finished) {
  GroupRun({&work, 1}, context, progress, finished).run();
}

void run_group(const CaseGroup& group, const RunContext& context, Progress& progress,
               const std::function<void(const std::vector<Record>&)>& finished) {
  const std::uint64_t limit = context.memory_limit_bytes;
  if (bytes_in_turns(group, *context.device, limit) <= limit) {
    GroupRun(group, context, progress, finished).run();
    return;
  }
  for (const Case& work : group) run_case(work, context, progress, finished);
}

}  // namespace attnlab
