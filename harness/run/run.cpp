#include "harness/run/run.h"

#include <functional>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "harness/measure/energy.h"
#include "harness/plan/accounting.h"
#include "harness/record/readings.h"
#include "harness/run/admission.h"
#include "harness/run/case_steps.h"
#include "harness/run/case_timing.h"
#include "harness/run/contenders.h"
#include "harness/run/entrants.h"
#include "harness/run/input_rotation.h"
#include "harness/run/judging.h"
#include "harness/run/observation.h"
#include "harness/tensors/inputs.h"
#include "kernels/api/ranges.h"
#include "kernels/api/runtime.h"

namespace attnlab {

namespace {

class CaseRun {
 public:
  CaseRun(const Case& work, const RunContext& context, Progress& progress,
          const Entrants::Finished& finished)
      : work_(work),
        context_(context),
        steps_(work, context, progress),
        admission_(context),
        entrants_(work, context, finished) {}

  void run() {
    entrants_.enter();
    for (Entrant* entrant : running()) attempt(*entrant, [&] { admission_.admit(*entrant); });
    if (!running().empty()) entrants_.attempt_for_all([&] { prepare_case(); });
    for (Entrant* entrant : running()) {
      steps_.begin("verify " + entrant->name());
      attempt(*entrant, [&] { verify(*entrant); });
      steps_.advance(kVerifyShare * point_weight(work_.problem, *entrant->competitor));
    }
    if (!running().empty()) entrants_.attempt_for_all([&] { time(); });
    for (Entrant* entrant : running()) {
      steps_.begin("verify again " + entrant->name());
      attempt(*entrant, [&] {
        judge_again(*entrant);
        if (observes(*entrant)) {
          steps_.begin("observe " + entrant->name());
          observe(*entrant, *context_.observers, *context_.device);
        }
        if (context_.measures_energy) {
          steps_.begin("energy " + entrant->name());
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

  // Inputs and oracle, once for all competitors.
  void prepare_case() {
    const Problem& problem = work_.problem;
    arena_.emplace(runtime_of(*context_.device));
    steps_.begin("inputs");
    inputs_.emplace(*arena_, problem, work_.input_kind, work_.seed, context_.device->threads,
                    work_.input.get());
    steps_.begin("oracle");
    judge_.emplace(work_, context_, inputs_->host());
    for (const Entrant* entrant : running()) static_cast<void>(judge_->references_of(*entrant));
  }

  // The first launch, and the peak of the memory: the inputs and this competitor's own, without
  // what the forwards of earlier ones left.
  void verify(Entrant& entrant) {
    if (entrant.peer) return verify_peer(entrant);
    entrant.compile(work_.problem, *context_.device);
    const std::uint64_t of_others = arena_->current_bytes() - bytes_of_inputs(work_.problem);
    if (work_.problem.pass == Pass::bwd) {
      judge_->judge_damage(entrant, entrant.run_forward(*arena_, work_.problem, *context_.device,
                                                        inputs_->tensors()));
    }
    arena_->reset_peak();
    const Outputs outputs = entrant.make_outputs(*arena_, work_.problem);
    const Arena::Buffer workspace = arena_->allocate("workspace", entrant.workspace_bytes());
    entrant.prepared = entrant.prepare(work_.problem, *context_.device);
    const Tensors tensors = entrant.attach(inputs_->tensors(), outputs, workspace);
    entrant.launch(tensors, arena_->runtime());
    entrant.record.memory->peak_bytes = arena_->peak_bytes() - of_others;
    judge_->judge(entrant, tensors, *arena_, entrant.record.verify);
  }

  void verify_peer(Entrant& entrant) {
    const Problem& problem = work_.problem;
    if (!peer_inputs_) peer_inputs_.emplace(problem, inputs_->host());
    const int sets = InputRotation::count(problem, *context_.device, context_.protocol);
    const PeerOutputs outputs = entrant.peer->prepare(*peer_inputs_, {.input_sets = sets});
    entrant.record.peer =
        PeerEvidence{.version = entrant.peer->version(), .peak_bytes = entrant.peer->peak_bytes()};
    // It has checked itself that the backend that was asked for ran.
    entrant.record.evidence = Evidence{.executed = entrant.peer->kernels(), .as_asked = true};
    judge_->judge_peer(entrant, outputs, entrant.record.verify);
  }

  // New outputs, full of NaN again: what is verified afterwards was written by timed launches.
  void time() {
    workspace_.emplace(arena_->allocate("workspace", admission_.workspace_bytes()));
    for (Entrant* entrant : running()) {
      if (entrant->peer) continue;
      entrant->outputs.emplace(entrant->make_outputs(*arena_, work_.problem));
      entrant->tensors = entrant->attach(inputs_->tensors(), *entrant->outputs, *workspace_);
    }
    if (context_.profile_launches > 0) return profile();
    rotation_.emplace(work_.problem, *inputs_, *arena_, *context_.device, context_.protocol);
    for (Entrant* entrant : running()) {
      if (!entrant->peer && admission_.admit_spare(*entrant)) make_spare(*entrant);
    }
    time_case(entrants_, *rotation_, *arena_, context_, steps_);
  }

  void make_spare(Entrant& entrant) try {
    entrant.spare.emplace(entrant.make_outputs(*arena_, work_.problem));
  } catch (const std::bad_alloc&) {
    entrant.why_no_spare = "the device has no memory left for a second set of outputs";
  }

  // In place of timing: launches for a profiler to watch, which makes them slow.
  void profile() {
    steps_.begin("profile");
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
    if (entrant.peer) {
      judge_->judge_peer(entrant, entrant.peer->outputs(), entrant.record.verify_timed);
    } else {
      judge_->judge(entrant, entrant.tensors, *arena_, entrant.record.verify_timed);
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
                       static_cast<double>(useful_flops(work_.problem)), *context_.telemetry);
  }

  std::vector<Entrant*> running() { return entrants_.running(); }

  void attempt(Entrant& entrant, const std::function<void()>& step) {
    entrants_.attempt(entrant, step);
  }

  const Case& work_;
  const RunContext& context_;
  CaseSteps steps_;
  Admission admission_;
  std::optional<Arena> arena_;
  std::optional<Inputs> inputs_;
  std::optional<Judge> judge_;
  std::optional<PeerInputs> peer_inputs_;
  std::optional<Arena::Buffer> workspace_;  // of the timed launches, and their inputs
  std::optional<InputRotation> rotation_;
  Entrants entrants_;
};

}  // namespace

void run_case(const Case& work, const RunContext& context, Progress& progress,
              const std::function<void(const std::vector<Record>&)>& finished) {
  CaseRun(work, context, progress, finished).run();
}

}  // namespace attnlab
