#include "harness/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "harness/accounting.h"
#include "harness/admission.h"
#include "harness/bench.h"
#include "harness/contenders.h"
#include "harness/ending.h"
#include "harness/energy.h"
#include "harness/entrant.h"
#include "harness/host_tensors.h"
#include "harness/input_rotation.h"
#include "harness/inputs.h"
#include "harness/possible_time.h"
#include "harness/reference_cache.h"
#include "harness/repro.h"
#include "harness/roof.h"
#include "harness/timing.h"
#include "kernels/api/ranges.h"
#include "reference/oracle.h"
#include "reference/tolerance.h"

namespace attnlab {

namespace {

// Estimated cost of a point beside its launches (warm-up, shortest samples), in FLOPs of a launch.
constexpr double kPointWeight = 2e9;

double weight(const Problem& problem, const Competitor& competitor) {
  if (!wants_to_run(competitor)) return 0.0;
  return kPointWeight + static_cast<double>(useful_flops(problem));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

class CaseRun {
 public:
  CaseRun(const Case& work, const RunContext& context, Progress& progress,
          const std::function<void(const std::vector<Record>&)>& finished)
      : work_(work),
        context_(context),
        progress_(progress),
        finished_(finished),
        case_range_(work.problem.id()),
        admission_(context) {}

  void run() {
    stop_if_interrupted();
    progress_.begin(work_.problem.id());
    enter();
    for (Entrant* entrant : running()) attempt(*entrant, [&] { admission_.admit(*entrant); });
    if (!running().empty()) attempt_for_all([&] { prepare_case(); });
    for (Entrant* entrant : running()) {
      begin_step("verify " + entrant->name());
      attempt(*entrant, [&] { verify(*entrant); });
      advance(kVerifyShare * weight(work_.problem, *entrant->competitor));
    }
    if (!running().empty()) attempt_for_all([&] { time(); });
    for (Entrant* entrant : running()) {
      begin_step("verify again " + entrant->name());
      attempt(*entrant, [&] {
        judge_again(*entrant);
        if (observes(*entrant)) {
          begin_step("observe " + entrant->name());
          observe(*entrant, *context_.observers, *context_.device);
        }
        if (context_.measures_energy) {
          begin_step("energy " + entrant->name());
          measure_energy_of(*entrant);
        }
      });
      if (!entrant->finished) finish(*entrant, {Status::ok, ""});
    }
    if (!timed_.empty()) finished_(timed_);
    advance(case_weight(work_) - advanced_);
  }

 private:
  static constexpr double kVerifyShare = 0.3;    // of a competitor's weight; timing is the rest
  static constexpr double kShortLaunch = 50e-6;  // seconds: below, graphs are timed too

  void stop_if_interrupted() const {
    if (context_.interrupted()) throw Interrupted();
  }

  void begin_step(const std::string& what) {
    stop_if_interrupted();
    step_range_.reset();  // before the next one begins: ranges nest
    step_range_.emplace(what);
    progress_.phase(what);
  }

  // Records at once what cannot run at all; lists all others.
  void enter() {
    entrants_.reserve(work_.competitors.size());
    for (const Competitor& competitor : work_.competitors) {
      Entrant& entrant = entrants_.emplace_back(Entrant{
          .competitor = &competitor, .record = planned_record(work_, competitor, context_)});
      if (!competitor.skipped.empty()) {
        finish(entrant, {Status::skipped, competitor.skipped});
      } else if (!competitor.unsupported.empty()) {
        finish(entrant, {Status::unsupported, competitor.unsupported});
      } else if (is_peer(competitor.kernel)) {
        entrant.peer =
            std::make_unique<TorchPeer>(*context_.peers, competitor.kernel, *context_.device);
      } else if (competitor.implementation == nullptr) {
        finish(entrant,
               {Status::unsupported, fmt::format("no kernel '{}' on backend {}", competitor.kernel,
                                                 to_string(competitor.backend))});
      }
    }
  }

  // Inputs and oracle, once for all competitors.
  void prepare_case() {
    const Problem& problem = work_.problem;
    const int threads = context_.device->threads;
    arena_.emplace(runtime_of(*context_.device));
    begin_step("inputs");
    inputs_.emplace(*arena_, problem, work_.input_kind, work_.seed, threads, work_.input.get());
    begin_step("oracle");
    references_.emplace(
        problem, inputs_->host(),
        reference::choose_samples(problem, context_.protocol.verify_multiply_adds, work_.seed),
        threads);
    for (const Entrant* entrant : running()) static_cast<void>(references_of(*entrant));
  }

  // The first launch, and the peak of the memory: the inputs and this competitor's own, without
  // what the forwards of earlier ones left.
  void verify(Entrant& entrant) {
    if (entrant.peer) return verify_peer(entrant);
    entrant.compile(work_.problem, *context_.device);
    const std::uint64_t of_others = arena_->current_bytes() - Inputs::bytes(work_.problem);
    if (work_.problem.pass == Pass::bwd) {
      fail_if(
          named(entrant.run_forward(*arena_, work_.problem, *context_.device, inputs_->tensors())),
          entrant);
    }
    arena_->reset_peak();
    const Outputs outputs = entrant.make_outputs(*arena_, work_.problem);
    const Arena::Buffer workspace = arena_->allocate("workspace", entrant.workspace_bytes());
    entrant.prepared = entrant.prepare(work_.problem, *context_.device);
    const Tensors tensors = entrant.attach(inputs_->tensors(), outputs, workspace);
    entrant.launch(tensors, arena_->runtime());
    entrant.record.memory->peak_bytes = arena_->peak_bytes() - of_others;
    judge(entrant, tensors, entrant.record.verify);
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
    judge_peer(entrant, outputs, entrant.record.verify);
  }

  // New outputs, full of NaN again: what is verified afterwards was written by timed launches.
  void time() {
    const std::vector<Entrant*> timed = running();
    workspace_.emplace(arena_->allocate("workspace", admission_.workspace_bytes()));
    for (Entrant* entrant : timed) {
      if (entrant->peer) continue;
      entrant->outputs.emplace(entrant->make_outputs(*arena_, work_.problem));
      entrant->tensors = entrant->attach(inputs_->tensors(), *entrant->outputs, *workspace_);
    }
    if (context_.profile_launches > 0) return profile(timed);
    rotation_.emplace(work_.problem, *inputs_, *arena_, *context_.device, context_.protocol);
    Runtime& runtime = arena_->runtime();
    const Contenders contenders =
        make_contenders(timed, *rotation_, runtime, [this] { stop_if_interrupted(); });
    begin_step("time");
    progress_.phase("warm up");
    const Protocol& protocol = context_.protocol;
    const Backend backend = context_.device->backend;
    const double round_weight = (case_weight(work_) - advanced_) / protocol.min_rounds;
    const auto after_round = [&](int round) {
      progress_.phase(fmt::format("time {}/{}", round, std::max(round, protocol.min_rounds)));
      if (round < protocol.min_rounds) advance(round_weight);
    };
    std::vector<Samples> measured =
        measure(contenders.launches, protocol, backend, after_round, context_.telemetry);
    stop_if_interrupted();
    timing_is_done_ = true;
    // Failures first: after a lost device the others have no samples, or too few.
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (measured[i].error) {
        attempt(*timed[i], [&] { std::rethrow_exception(measured[i].error); });
      }
    }
    for (std::size_t i = 0; i < timed.size(); ++i) {
      if (timed[i]->finished) continue;
      attempt(*timed[i], [&] {
        if (timed[i]->peer) {
          timed[i]->record.peer->launch_cost_hidden = timed[i]->peer->launch_cost_was_hidden();
        }
        timed[i]->record.order = measured[i].order;
        timed[i]->record.time = summarize(std::move(measured[i]), runtime.timer());
        timed[i]->record.time->contenders = static_cast<int>(timed.size());
      });
    }
    if (backend == Backend::cuda && protocol.cache == CacheState::hot) {
      time_graphs(timed, contenders.graphs);
    }
    const std::string where = arena_->restore_guards();
    if (!where.empty()) {  // it may have hit anything
      throw Ending{Status::failed, "one of the timed kernels " + where + ": no time is valid"};
    }
    for (Entrant* entrant : running()) {
      attempt(*entrant, [&] {
        const std::string impossible = impossible_time(entrant->record);
        if (!impossible.empty()) throw Ending{Status::invalid, impossible};
      });
    }
  }

  // In place of timing: launches for a profiler to watch, which makes them slow.
  void profile(const std::vector<Entrant*>& entrants) {
    begin_step("profile");
    for (Entrant* entrant : entrants) {
      attempt(*entrant, [&] {
        const ProfilerRange range(entrant->name());
        for (int i = 0; i < context_.profile_launches; ++i) {
          entrant->launch(entrant->tensors, arena_->runtime());
        }
        arena_->runtime().synchronize();
      });
    }
  }

  // Short launches once more, replayed from graphs: for them the launch itself is most of the cost.
  // Not with cold inputs: a graph replays those it was recorded with.
  void time_graphs(const std::vector<Entrant*>& timed, const std::vector<Contender>& all) {
    std::vector<Entrant*> entrants;
    std::vector<Contender> contenders;
    for (std::size_t i = 0; i < timed.size(); ++i) {
      const bool has_graphs = !timed[i]->finished && timed[i]->peer == nullptr;
      if (!has_graphs || timed[i]->record.time->median_s >= kShortLaunch) continue;
      entrants.push_back(timed[i]);
      contenders.push_back(all[i]);
    }
    if (entrants.empty()) return;
    begin_step("time graphs");
    std::vector<Samples> measured =
        measure(contenders, context_.protocol, context_.device->backend, [](int) {});
    stop_if_interrupted();
    for (std::size_t i = 0; i < entrants.size(); ++i) {
      attempt(*entrants[i], [&] {
        if (measured[i].error) std::rethrow_exception(measured[i].error);
        if (!measured[i].seconds.empty()) {
          entrants[i]->record.time->graph = summarize_graph(std::move(measured[i]));
        }
      });
    }
  }

  // Of what the last timed launch left.
  void judge_again(Entrant& entrant) {
    if (entrant.peer) {
      judge_peer(entrant, entrant.peer->outputs(), entrant.record.verify_timed);
    } else {
      judge(entrant, entrant.tensors, entrant.record.verify_timed);
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
                                                  [this] { stop_if_interrupted(); });
    entrant.record.energy =
        measure_energy(contenders.queued.at(0), entrant.record.time->median_s,
                       static_cast<double>(useful_flops(work_.problem)), *context_.telemetry);
  }

  // Those of its own precision. A peer draws dropout masks of its own, so what is judged had none.
  const reference::References& references_of(const Entrant& entrant) {
    if (entrant.peer) return references_->of(reference::Products::storage, JudgedDropout::none);
    return references_->of(products_of(work_.problem, entrant.competitor->config));
  }

  void judge_peer(const Entrant& entrant, const PeerOutputs& outputs,
                  std::vector<reference::Verdict>& verdicts) {
    Problem problem = work_.problem;
    problem.dropout = 0.0;
    verdicts = reference::judge(problem, outputs.attach(inputs_->host()), references_of(entrant));
    for (const reference::Verdict& verdict : verdicts) {
      if (!verdict.pass) fail_if(verdict.message, entrant);
    }
  }

  void judge(const Entrant& entrant, const Tensors& tensors,
             std::vector<reference::Verdict>& verdicts) {
    const HostTensors host(work_.problem, tensors, inputs_->host(), arena_->runtime());
    std::string failure = named(arena_->restore_guards());
    verdicts = reference::judge(work_.problem, host.tensors(), references_of(entrant));
    if (context_.verified) context_.verified(entrant.record, host.tensors());
    const std::string changed = entrant.forward ? entrant.forward->changed() : "";
    if (failure.empty() && !changed.empty()) {
      failure = named(fmt::format(
          "the backward changed {}, which its forward left and it may only read", changed));
    }
    for (const reference::Verdict& verdict : verdicts) {
      if (failure.empty() && !verdict.pass) failure = verdict.message;
    }
    fail_if(failure, entrant);
  }

  // A failure with the problem's name, as the oracle's messages have it.
  std::string named(const std::string& failure) const {
    return failure.empty() ? failure : failure + "; " + work_.problem.id();
  }

  // Ends the competitor's way if there is a failure.
  void fail_if(const std::string& failure, const Entrant& entrant) const {
    if (failure.empty()) return;
    throw Ending{Status::failed, failure + "; reproduce: " + repro(entrant)};
  }

  std::string repro(const Entrant& entrant) const {
    return repro_command(work_, *entrant.competitor, *context_.device, context_.protocol);
  }

  std::vector<Entrant*> running() {
    std::vector<Entrant*> result;
    for (Entrant& entrant : entrants_) {
      if (!entrant.finished) result.push_back(&entrant);
    }
    return result;
  }

  // How a step ended early, if it did.
  template <class Step>
  static std::optional<Ending> ending_of(const Step& step) try {
    step();
    return std::nullopt;
  } catch (const Ending& ending) {
    return ending;
  } catch (const Interrupted&) {
    throw;
  } catch (const DeviceLost&) {
    throw;
  } catch (const PeerError& error) {
    switch (error.kind()) {
      case PeerError::Kind::unsupported: return Ending{Status::unsupported, error.what()};
      case PeerError::Kind::out_of_memory: return Ending{Status::out_of_memory, error.what()};
      case PeerError::Kind::error:
      case PeerError::Kind::lost: break;
    }
    return Ending{Status::invalid, error.what()};
  } catch (const std::bad_alloc&) {
    return Ending{Status::out_of_memory, "an allocation failed"};
  } catch (const std::exception& error) {
    return Ending{Status::invalid, error.what()};
  } catch (...) {
    return Ending{Status::invalid, "threw something that is not a std::exception"};
  }

  template <class Step>
  void attempt(Entrant& entrant, const Step& step) {
    try {
      if (const auto ending = ending_of(step)) finish(entrant, *ending);
    } catch (const DeviceLost& lost) {
      timing_is_done_ = false;  // nothing else of the case comes to an end
      // To release what lies on a device that hangs would hang too; the process ends soon.
      for (Entrant& other : entrants_) static_cast<void>(other.prepared.release());
      finish(entrant,
             {Status::invalid, fmt::format("{} {}; {}; reproduce: {}", entrant.name(), lost.what(),
                                           work_.problem.id(), repro(entrant))});
      throw;
    }
  }

  template <class Step>
  void attempt_for_all(const Step& step) {
    const auto ending = ending_of(step);
    if (!ending) return;
    for (Entrant* entrant : running()) finish(*entrant, *ending);
  }

  void finish(Entrant& entrant, const Ending& ending) {
    entrant.finished = true;
    entrant.peer.reset();
    entrant.prepared.reset();
    entrant.forward.reset();
    entrant.outputs.reset();
    if (ending.status != Status::ok) entrant.record.time.reset();  // of wrong results: no time
    entrant.record.status = ending.status;
    entrant.record.reason = ending.reason;
    entrant.record.timestamp = utc_now();
    entrant.record.roof = roof_of(entrant.record, context_.peaks);
    if (timing_is_done_) {
      timed_.push_back(entrant.record);
    } else {
      finished_({entrant.record});
    }
  }

  void advance(double amount) {
    advanced_ += amount;
    progress_.advance(amount);
  }

  const Case& work_;
  const RunContext& context_;
  Progress& progress_;
  const std::function<void(const std::vector<Record>&)>& finished_;

  ProfilerRange case_range_;
  std::optional<ProfilerRange> step_range_;
  Admission admission_;
  std::optional<Arena> arena_;
  std::optional<Inputs> inputs_;
  std::optional<ReferenceCache> references_;
  std::optional<PeerInputs> peer_inputs_;
  std::optional<Arena::Buffer> workspace_;  // of the timed launches, and their inputs
  std::optional<InputRotation> rotation_;
  std::vector<Entrant> entrants_;
  bool timing_is_done_ = false;
  std::vector<Record> timed_;  // finished ones of those that took turns
  double advanced_ = 0.0;
};

}  // namespace

bool wants_to_run(const Competitor& competitor) {
  return (competitor.implementation != nullptr || is_peer(competitor.kernel)) &&
         competitor.unsupported.empty() && competitor.skipped.empty();
}

Record planned_record(const Case& work, const Competitor& competitor, const RunContext& context) {
  return {.point = {work.problem, work.input_kind, work.seed, {competitor}, work.input},
          .sweep = context.sweep_name,
          .pattern = summarize_pattern(work.problem),
          .device = *context.device,
          .protocol = context.protocol,
          .command_line = context.command_line};
}

double case_weight(const Case& work) {
  double total = 0.0;
  for (const Competitor& competitor : work.competitors) total += weight(work.problem, competitor);
  return total;
}

void run_case(const Case& work, const RunContext& context, Progress& progress,
              const std::function<void(const std::vector<Record>&)>& finished) {
  CaseRun(work, context, progress, finished).run();
}

}  // namespace attnlab
