#include "harness/cli/gate_plan.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/shipped.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/plan/axes.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/plan/sweep_file.h"
#include "harness/run/context.h"
#include "harness/session/gate_sides.h"
#include "harness/session/listed_points.h"

namespace attnlab {
namespace {

constexpr int kRounds = 30;
// These sweeps are measured where flags name no points.
constexpr const char* kSweepOfGpu = "sweeps/gate.json";
constexpr const char* kSweepOfCpu = "sweeps/gate-cpu.json";

std::string usual_sweep(const std::string& backend) {
  return here_or_shipped(backend == "cpu" ? kSweepOfCpu : kSweepOfGpu).string();
}

// Refuses settings under which base and head would not be the programs that the gate names.
void refuse_kernels(const CompilerSettings& compiler, const Device& device) {
  if (compiler.debug) {
    throw UsageError("--debug-kernels: are not optimised, so a time means nothing: leave it out");
  }
  if (std::getenv("ATTNLAB_KERNEL_SOURCES") != nullptr) {
    throw UsageError(
        "ATTNLAB_KERNEL_SOURCES: is set, and both sides would compile its kernels: unset it, and "
        "name the head's with --kernel-sources");
  }
  if (device.backend == Backend::cpu && !compiler.source_folder.empty()) {
    throw UsageError(
        "--kernel-sources: kernels of the CPU are part of the program: leave it out, and build it");
  }
}

// Refuses to measure the CPU in place of a GPU that is hidden: its verdict would say nothing.
void check_device(const Device& device, BackendChoice asked) {
  if (device.name.empty()) throw std::runtime_error(why_no_device(Backend::cuda));
  if (device.backend == Backend::cuda || asked == BackendChoice::cpu) return;
  throw std::runtime_error(
      fmt::format("there is no GPU ({}); --backend cpu measures kernels of the CPU",
                  why_no_device(Backend::cuda)));
}

}  // namespace

void add_gate_point_flags(CLI::App& command, GatePointFlags& flags,
                          const std::string& rounds_help) {
  add_sweep_flags(command, flags.sweep);
  command.add_option("--rounds", flags.rounds, rounds_help)
      ->type_name("N")
      ->transform(whole_number(5, 10000))
      ->group("Measurement");
  add_list(command, "--protocol", flags.protocol, "As of attnlab run, like regime=settled")
      ->type_name("KEY=N,...")
      ->group("Measurement");
}

GatePlan make_gate_plan(const GatePointFlags& given, const CompilerSettings& compiler,
                        const std::string& folder, bool shows_progress) {
  GatePointFlags flags = given;
  if (!names_points(flags.sweep)) flags.sweep.sweep_file = usual_sweep(flags.sweep.backend);
  Sweep sweep = make_sweep(flags.sweep);
  if (!flags.protocol.empty()) {
    Sweep alone;
    set_protocol(alone, flags.protocol, "--protocol");
    if (alone.protocol.min_rounds || alone.protocol.max_rounds) {
      throw UsageError(
          "--protocol: --rounds says how many samples each side takes: leave "
          "min_rounds and max_rounds out");
    }
    set_protocol(sweep, flags.protocol, "--protocol");
  }
  apply_compiler_flags(compiler);
  GatePlan plan = {.device = choose_device(sweep.backend)};
  check_device(plan.device, sweep.backend);
  refuse_kernels(compiler, plan.device);
  flags.sweep.backend =
      to_string(plan.device.backend);  // it holds for both sides, whatever they would choose
  plan.protocol = resolve(sweep.protocol, plan.device);
  plan.run = {.head = own_side("head", compiler, compiler.source_folder),
              .sweep = arguments_of(flags.sweep),
              .cases = expand(sweep, builtin_registry(), plan.device),
              .rounds = flags.rounds.value_or(kRounds),
              .folder = flags.out,
              .shows_progress = shows_progress,
              .interrupted = [] { return InterruptWatch::signal() != 0; }};
  plan.run.points =
      planned_keys(plan.run.cases, {.device = &plan.device, .protocol = plan.protocol});
  if (!flags.protocol.empty()) plan.run.sweep.push_back("--protocol=" + flags.protocol);
  plan.named_folder = !flags.out.empty();
  if (!plan.named_folder) {
    plan.run.folder = fmt::format("{}-{:%Y%m%dT%H%M%SZ}", folder, fmt::gmtime(std::time(nullptr)));
  }
  plan.options.any_rounds = true;
  plan.noise = load_noise(plan.device);
  plan.usable_noise = sessions_for(plan.noise, plan.run.rounds);
  return plan;
}

void make_records_folder(GatePlan& plan) {
  std::filesystem::path& folder = plan.run.folder;
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  bool is_made = std::filesystem::create_directory(folder, error);
  const std::string own = folder.string();
  for (int number = 2; !is_made && !error && !plan.named_folder; ++number) {
    folder = fmt::format("{}-{}", own, number);
    is_made = std::filesystem::create_directory(folder, error);
  }
  if (!error && access(folder.c_str(), W_OK) == 0) return;
  throw UsageError(fmt::format("--out: {}: no records can be written there", folder.string()));
}

void set_thresholds(GatePlan& plan, NoiseOf kind, const std::optional<double>& percent) {
  if (percent) {
    plan.options.threshold = *percent / 100.0;
    return;
  }
  plan.options.threshold_of = [&plan, kind](const RecordJson& record) {
    const double seconds = record.at("time").at("median_s");
    return noise_threshold(plan.usable_noise, kind, plan.protocol.regime, seconds,
                           plan.options.threshold);
  };
}

std::string describe_thresholds(const GatePlan& plan, NoiseOf kind) {
  const double percent = 100.0 * plan.options.threshold;
  if (!plan.options.threshold_of) {
    return fmt::format("A change of time counts from {:g} % on (--threshold).", percent);
  }
  std::string text;
  for (int size = 0; size <= std::ssize(kSizeBounds); ++size) {
    const auto level = noise_level(plan.usable_noise, kind, plan.protocol.regime, size);
    if (!level || level->pairs < kFewestNoisePairs) continue;
    text += fmt::format("{}{:.2f} % of times {}", text.empty() ? "" : ", ", 100.0 * level->share,
                        describe_size_class(size));
  }
  if (text.empty()) {
    return fmt::format(
        "The noise of this machine {} is not known, so a change of time counts from {:g} % on: "
        "attnlab calibrate measures it{}, with as many rounds or fewer.",
        to_string(kind), percent, kind == NoiseOf::sessions ? ", from its second call on" : "");
  }
  return fmt::format(
      "A change of time counts from three times this machine's noise {} on, and from 1 % on at "
      "least; the noise is {}.",
      to_string(kind), text);
}

}  // namespace attnlab
