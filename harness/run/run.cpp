#include "harness/run/run.h"

#include <algorithm>
#include <chrono>
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
#include "harness/run/competitor_runs.h"
#include "harness/run/input_rotation.h"
#include "harness/run/judging.h"
#include "harness/run/observation.h"
#include "harness/run/quantise_timing.h"
#include "harness/run/reference_cache.h"
#include "harness/run/ways_to_time.h"
#include "harness/run/whole_reference.h"
#include "harness/tensors/inputs.h"
#include "kernels/api/ranges.h"
#include "kernels/api/runtime.h"
#include "reference/oracle.h"

namespace attnlab {

namespace {

// Holds what competitors on one case of a group share: the same numbers, in the case's layout.
struct Lane {
  Lane(const Case& own, const RunContext& context, Arena& arena)
      : work(own),
        inputs(arena, own.problem, own.input_kind, own.seed, context.device->threads,
               own.input.get()) {}
  Lane(const Case& own, const RunContext& context, Arena& arena, const Lane& other)
      : work(own), inputs(arena, own.problem, other.inputs, context.device->threads) {}

  const Case& work;
  Inputs inputs;
  std::optional<Judge> judge;
  std::optional<PeerInputs> peer_inputs;
};

class GroupRun {
 public:
  GroupRun(std::span<const Case> group, const RunContext& context, Progress& progress,
           const CompetitorRuns::Finished& finished)
      : group_(group),
        context_(context),
        steps_(group, context, progress),
        admission_(context),
        runs_(group, context, finished) {}

  void run() {
    runs_.enter();
    for (CompetitorRun* run : running()) attempt(*run, [&] { admission_.admit(*run); });
    if (!running().empty()) runs_.attempt_for_all([&] { prepare_lanes(); });
    for (CompetitorRun* run : running()) {
      steps_.begin("verify " + run->name(), verifying(*run));
      attempt(*run, [&] { verify(*run); });
      steps_.advance(kVerifyShare *
                     point_weight(run->problem(), *run->competitor, context_.protocol));
    }
    if (!running().empty()) runs_.attempt_for_all([&] { time(); });
    if (!running().empty()) runs_.attempt_for_all([&] { draw_other_samples(); });
    for (CompetitorRun* run : running()) {
      steps_.begin("verify again " + run->name(), verifying(*run));
      attempt(*run, [&] {
        judge_again(*run);
        if (observes(*run)) {
          steps_.begin("observe " + run->name(), &Spending::observation);
          observe(*run, *context_.observers, *context_.device);
        }
        if (context_.measures_energy) {
          steps_.begin("energy " + run->name(), &Spending::observation);
          measure_energy_of(*run);
        }
      });
      if (!run->finished) runs_.finish(*run, {Status::ok, ""});
    }
    runs_.hand_out();
    steps_.advance(steps_.remaining());
  }

 private:
  static constexpr double kVerifyShare = 0.3;  // of a competitor's weight; timing is the rest

  static double Spending::*verifying(const CompetitorRun& run) {
    return run.peer ? &Spending::peers : &Spending::verification;
  }

  // Makes inputs in each layout in which somebody runs, and the oracle, once for all competitors.
  void prepare_lanes() {
    arena_.emplace(context_.runtime != nullptr ? *context_.runtime : runtime_of(*context_.device));
    steps_.begin("inputs", &Spending::inputs);
    for (const Case& work : group_) {
      const bool is_run = std::ranges::any_of(running(), [&](const CompetitorRun* run) {
        return run->problem().layout == work.problem.layout;
      });
      if (!is_run) continue;
      lanes_.push_back(lanes_.empty()
                           ? std::make_unique<Lane>(work, context_, *arena_)
                           : std::make_unique<Lane>(work, context_, *arena_, *lanes_.front()));
    }
    steps_.begin("oracle", &Spending::references);
    const Case& first = lanes_.front()->work;
    const std::uint64_t seed = seed_of_samples("");
    references_.emplace(first.problem, lanes_.front()->inputs.host(), samples(seed),
                        context_.device->threads);
    if (context_.device->backend == Backend::cuda) {
      whole_.emplace(first.problem, lanes_.front()->inputs.tensors(), *context_.device, seed,
                     context_.protocol.verify_seconds);
      if (!admission_.admit_references(whole_->bytes())) whole_.reset();
    }
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      lane->judge.emplace(lane->work, context_, lane->inputs.host(), *references_,
                          whole_ ? &*whole_ : nullptr);
    }
    for (const CompetitorRun* run : running()) lane_of(*run).judge->make_references(*run);
  }

  // Points check different rows and heads: what is wrong in one place is met somewhere.
  std::uint64_t seed_of_samples(const char* which) const {
    const Case& first = lanes_.front()->work;
    return derive_seed(first.seed, first.problem.id() + which);
  }
  reference::Samples samples(std::uint64_t seed) const {
    return reference::choose_samples(lanes_.front()->work.problem,
                                     context_.protocol.verify_multiply_adds, seed);
  }

  // Lets the oracle look at other rows of what was timed than of the first launch, where it cannot
  // look at all: where launches leave the same bits, both choices say something of both.
  void draw_other_samples() {
    if (!references_->look_at(samples(seed_of_samples(" timed")))) return;
    steps_.begin("oracle", &Spending::references);
    for (const CompetitorRun* run : running()) lane_of(*run).judge->make_references(*run);
  }

  // Returns the competitor's lane: a group has each layout once.
  Lane& lane_of(const CompetitorRun& run) {
    return **std::ranges::find_if(lanes_, [&](const std::unique_ptr<Lane>& lane) {
      return lane->work.problem.layout == run.problem().layout;
    });
  }

  // Makes and judges the first launch. The peak of the memory has the inputs and this competitor's
  // own, without what the forwards of earlier ones left.
  void verify(CompetitorRun& run) {
    if (run.peer) return verify_peer(run);
    const Problem& problem = run.problem();
    Lane& lane = lane_of(run);
    run.compile(problem, *context_.device);
    const std::uint64_t of_others = arena_->current_bytes() - bytes_of_inputs(problem);
    if (problem.pass == Pass::bwd) {
      lane.judge->judge_damage(
          run, run.run_forward(*arena_, problem, *context_.device, lane.inputs.tensors()));
    }
    arena_->reset_peak();
    const Outputs outputs = run.make_outputs(*arena_, problem);
    const Arena::Buffer workspace = arena_->allocate("workspace", run.workspace_bytes());
    run.prepared = run.prepare(problem, *context_.device);
    const Tensors tensors = run.attach(lane.inputs.tensors(), outputs, workspace);
    run.launch(tensors, arena_->runtime());
    run.record.memory->peak_bytes = arena_->peak_bytes() - of_others;
    lane.judge->judge(run, tensors, *arena_, run.record.verify);
    run.verified = outputs.contents();
  }

  void verify_peer(CompetitorRun& run) {
    const Problem& problem = run.problem();
    Lane& lane = lane_of(run);
    if (!lane.peer_inputs) {
      lane.peer_inputs.emplace(problem, lane.inputs.host(), lane.inputs.tensors(),
                               arena_->runtime());
    }
    const int sets = InputRotation::count(problem, *context_.device, context_.protocol);
    const PeerOutputs outputs = run.peer->prepare(*lane.peer_inputs, {.input_sets = sets});
    run.record.peer = PeerEvidence{.version = run.peer->version(),
                                   .plan = run.peer->plan(),
                                   .peak_bytes = run.peer->peak_bytes()};
    // The peer has checked itself that the backend that was asked for ran.
    run.record.evidence = Evidence{.executed = run.peer->kernels(), .as_asked = true};
    lane.judge->judge_peer(run, outputs, run.record.verify);
  }

  void time() {
    while (!make_room()) {
      const std::vector<CompetitorRun*> all = running();
      CompetitorRun& largest = **std::ranges::max_element(
          all, {}, [](const CompetitorRun* run) { return own_bytes(*run); });
      runs_.finish(largest, admission_.refusal(largest));
    }
    if (context_.profile_launches > 0) return profile();
    for (CompetitorRun* run : running()) {
      if (run->peer) continue;
      if (admission_.admit_spare(*run)) make_spare(*run);
      run->judge_later = [this, run](const Outputs& outputs) {
        std::vector<reference::Verdict>& verdicts = run->record.verify_timed;
        lane_of(*run).judge->judge(*run, outputs.attach(run->tensors), *arena_, verdicts);
        verdicts.clear();  // they are of the last outputs, unless these failed
      };
    }
    if (context_.timeline) {
      for (CompetitorRun* run : running()) {
        attempt(*run, [&] { run->timeline = run->prepare_timeline(*arena_, *context_.device); });
      }
    }
    time_case(runs_, *rotation_, *arena_, context_, steps_);
    time_quantisations();
  }

  // Makes all that timed launches need. Outputs are new and full of NaN: what is verified
  // afterwards was written by timed launches. Returns false, with nothing made, if the device's
  // memory is too small; throws std::bad_alloc if only one competitor is left.
  bool make_room() try {
    std::uint64_t workspace_bytes = 0;
    for (const CompetitorRun* run : running()) {
      if (!run->peer) workspace_bytes = std::max(workspace_bytes, run->workspace_bytes());
    }
    workspace_.emplace(arena_->allocate("workspace", workspace_bytes));
    for (CompetitorRun* run : running()) {
      if (run->peer) continue;
      run->outputs.emplace(run->make_outputs(*arena_, run->problem()));
      run->tensors = run->attach(lane_of(*run).inputs.tensors(), *run->outputs, *workspace_);
    }
    if (context_.profile_launches == 0) make_rotation();
    return true;
  } catch (const std::bad_alloc&) {
    if (running().size() == 1) throw;
    rotation_.reset();
    workspace_.reset();
    for (CompetitorRun* run : running()) run->outputs.reset();
    return false;
  }

  void make_rotation() {
    rotation_.emplace(*arena_, *context_.device, context_.protocol);
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      rotation_->add(lane->work.problem, lane->inputs);
    }
    for (const CompetitorRun* run : running()) {
      if (!run->peer) static_cast<void>(rotation_->sets_of(*run));
    }
  }

  // Times it once for all that compete on a case: they share the codes and scales.
  void time_quantisations() {
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      if (!lane->work.problem.is_e4m3()) continue;
      steps_.begin("time quantisation", &Spending::timing);
      const std::optional<QuantiseRecord> quantise = time_quantisation(
          lane->inputs, *arena_, context_, [this] { steps_.stop_if_interrupted(); });
      for (CompetitorRun* run : running()) {
        if (&lane_of(*run) == lane.get()) run->record.quantise = quantise;
      }
    }
  }

  void make_spare(CompetitorRun& run) try {
    run.spare.emplace(run.make_outputs(*arena_, run.problem()));
  } catch (const std::bad_alloc&) {
    run.why_no_spare = "the device has no memory left for a second set of outputs";
  }

  // Launches, in place of timing, for a profiler to watch, which makes launches slow. Others of the
  // same kernel come directly before, so that they leave caches and clocks as these find them.
  void profile() {
    for (CompetitorRun* run : running()) {
      attempt(*run, [&] {
        steps_.begin("warm up", &Spending::timing);
        warm_up(*run);
        steps_.begin("profile", &Spending::timing);
        const ProfilerRange range(run->name());
        const ProfilerCapture capture(*context_.device);
        for (int i = 0; i < context_.profile_launches; ++i) {
          run->launch(run->tensors, arena_->runtime());
        }
        arena_->runtime().synchronize();
      });
    }
  }

  void warm_up(CompetitorRun& run) {
    using Clock = std::chrono::steady_clock;
    const Protocol& protocol = context_.protocol;
    const auto end = Clock::now() + std::chrono::duration<double>(protocol.warmup_seconds);
    for (int i = 0; i < protocol.warmup_launches || Clock::now() < end; ++i) {
      run.launch(run.tensors, arena_->runtime());
      arena_->runtime().synchronize();
    }
  }

  // Judges what the last timed launch left.
  void judge_again(CompetitorRun& run) {
    Judge& judge = *lane_of(run).judge;
    if (run.peer) {
      judge.judge_peer(run, run.peer->outputs(), run.record.verify_timed);
    } else {
      judge.judge(run, run.tensors, *arena_, run.record.verify_timed);
    }
  }

  // Returns whether it is observed: what runs in another process is out of sight.
  bool observes(const CompetitorRun& run) const {
    return context_.observers != nullptr && run.launch_next;
  }

  // Measures energy; it comes after all times, because the device is hot then.
  void measure_energy_of(CompetitorRun& run) {
    if (context_.telemetry == nullptr) {
      run.record.energy = EnergyRecord{.reason = "no telemetry of the device"};
      return;
    }
    const WaysToTime ways = ways_to_time({&run}, *rotation_, arena_->runtime(),
                                         [this] { steps_.stop_if_interrupted(); });
    run.record.energy =
        measure_energy(ways.queued.at(0), run.record.time->median_s,
                       static_cast<double>(useful_flops(run.problem())), *context_.telemetry);
  }

  std::vector<CompetitorRun*> running() { return runs_.running(); }

  void attempt(CompetitorRun& run, const std::function<void()>& step) { runs_.attempt(run, step); }

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
  CompetitorRuns runs_;
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
