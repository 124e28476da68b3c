// Turns the flags that attnlab gate and attnlab calibrate share into what is measured.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/sweep_flags.h"
#include "harness/measure/noise.h"
#include "harness/session/gate.h"
#include "kernels/api/compiler.h"

namespace attnlab {

// Holds the flags that both verbs have, beside those of the compiler.
struct GatePointFlags {
  SweepFlags sweep;
  std::string protocol, out;
  std::optional<int> rounds;
};
void add_gate_point_flags(CLI::App& command, GatePointFlags& flags, const std::string& rounds_help);

// Says what is measured and with what, and holds what is known of the machine.
struct GatePlan {
  Device device;
  Protocol protocol;
  GateRun run;                // of this program alone: head, without a base
  bool named_folder = false;  // whether --out names the run's folder
  CompareOptions options;
  std::vector<NoiseSession> noise;         // that was measured
  std::vector<NoiseSession> usable_noise;  // of it, with so many rounds
};
// Sets the compiler, chooses the device, reads the sweep (where flags name none, sweeps/gate.json,
// on a CPU sweeps/gate-cpu.json) and the noise file. Where --out names no folder for the records,
// `folder` with the time behind it does. Throws UsageError, and std::runtime_error where there is
// no GPU and nobody asked for the CPU.
GatePlan make_gate_plan(const GatePointFlags& given, const CompilerSettings& compiler,
                        const std::string& folder, bool shows_progress);

// Makes the folder of the records. Appends a number if --out names none and the default exists:
// gates of several GPUs may begin in one second. Throws UsageError where the folder cannot be
// written to.
void make_records_folder(GatePlan& plan);
// Sets the thresholds from `percent`, or from the noise. `plan` must outlive its options.
void set_thresholds(GatePlan& plan, NoiseOf kind, const std::optional<double>& percent);
// Says in sentences what changes can be resolved.
std::string describe_thresholds(const GatePlan& plan, NoiseOf kind);

}  // namespace attnlab
