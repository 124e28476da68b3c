// Implements attnlab model, which says what problems cost on paper, without running them.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/sweep_flags.h"
#include "harness/cli/verbs.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/report/model_report.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(Nothing is run. Useful FLOPs are those of the visible (query, key) pairs, compulsory bytes are
every tensor once; executed FLOPs and requested bytes come from the schedules of the kernels,
which count themselves: the CPU's, or with --backend cuda those of the first GPU that --gpu names
(none named: of this machine's). GPU peaks and bandwidths are the vendor's: '-' means that there
is no source. Memory is what a launch holds at once: tensors, lse and what is saved for a backward,
and the workspace, of which each thread of a CPU has its part. One problem prints a full report,
several tables; json and csv have every number, units in names.

Examples:
  attnlab model --seqlen 8k --dtype f16 --head-dim 128 --mask causal
  attnlab model --seqlen 32k --batch 4 --heads 16 --backend cuda --gpu H100 --dtype bf16
  attnlab model --batch 8 --heads 32 --seqlen 8k --dtype f16 --gpu A100,H100
  attnlab model --kernel v2 --seqlen 4k --block 64x64 --head-dim 128
  attnlab model --kernel naive,v2 --seqlen 1k:64k:x4 --mask none,causal --gpu H200
  attnlab model --backend cuda --gpu A100 --kernel v1,v2 --dtype f16 --seqlen 4k
  attnlab model sweeps/quick.json --format csv > cost.csv

Exit codes: 0 good, 2 bad flags or sweep file.)";

struct ModelFlags {
  SweepFlags sweep;
  std::string gpus;
  std::optional<int> threads;
  std::string format = "table";
};

// Returns the device whose kernels are counted: with --backend cuda --gpu one that need not exist.
Device counted_device(BackendChoice backend, const ModelFlags& flags,
                      const std::vector<const Gpu*>& chosen) {
  if (backend == BackendChoice::cuda && !flags.gpus.empty()) return device_of(*chosen.front());
  return choose_device(backend);
}

int run(const ModelFlags& flags) {
  Sweep sweep = make_sweep(flags.sweep);
  for (Axes& axes : sweep.axes) {
    axes.input_kind = {InputKind::normal};  // the values of inputs cost nothing
  }
  sweep.overridden = true;  // an exclusion may speak of other inputs
  const TableFormat format = parse_format(flags.format, "--format");
  std::vector<const Gpu*> chosen;
  for (const Gpu& gpu : gpus()) chosen.push_back(&gpu);
  if (!flags.gpus.empty()) chosen = parse_gpus(flags.gpus, "--gpu");
  Device device = counted_device(sweep.backend, flags, chosen);
  if (flags.threads) device.threads = *flags.threads;
  const std::vector<Case> cases = expand(sweep, builtin_registry(), device);
  print_to(stdout, "{}", render_model(make_model(cases, device, chosen), format));
  return kExitGood;
}

std::string gpu_names() {
  std::string names;
  for (const Gpu& gpu : gpus()) names += (names.empty() ? "" : ", ") + std::string(gpu.name);
  return names;
}

}  // namespace

Verb add_model_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("model", "Show what problems cost on paper: FLOPs, bytes, tiles, bounds");
  command->footer(kFooter);
  const auto flags = std::make_shared<ModelFlags>();
  add_sweep_flags(*command, flags->sweep);
  add_list(*command, "--gpu", flags->gpus, "Whose roofline (default: all): " + gpu_names())
      ->type_name("NAME,...")
      ->group("Where");
  command
      ->add_option("--threads", flags->threads,
                   "CPU threads, which have a workspace each (default: all)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096).description(""))
      ->group("Where");
  add_table_format(*command, flags->format);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
