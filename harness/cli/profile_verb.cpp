// Implements attnlab profile, which runs points under Nsight and reads its reports.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/sweep_flags.h"
#include "harness/cli/tensor_flags.h"
#include "harness/cli/verbs.h"
#include "harness/plan/compile_jobs.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/expand.h"
#include "harness/plan/protocol.h"
#include "harness/plan/sweep_file.h"
#include "harness/record/ncu_report.h"
#include "harness/record/record_file.h"
#include "harness/record/repro.h"
#include "harness/report/merging.h"
#include "harness/report/ncu_import.h"
#include "harness/session/compile_progress.h"
#include "harness/session/profiler_tool.h"
#include "harness/session/restart.h"
#include "kernels/api/registry.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(POINTS are a sweep file or axes, as attnlab run takes them, on a GPU. The command is printed, then
it runs: each kernel is verified, warmed up and launched once, between cudaProfilerStart and Stop
and in the NVTX range attnlab@profile, and the tool looks at that launch alone. Nothing is timed or
recorded. Kernels are compiled before, so that it watches no compiler. What stands behind -- is the
tool's; a flag of a name that attnlab gives, too, replaces it.

ncu leaves the clocks alone (--clock-control none). It empties the caches before each kernel where
cold ones are asked for (--protocol cache=cold), and leaves them as the warm-up did where not; it
replays a kernel several times all the same. Its report is NAME.ncu-rep. nsys knows no cold caches;
of several kernels it writes a report each.

--import REPORT fills the block "profile" of the records of the same points: a .ncu-rep (ncu must be
here), or its raw page as CSV (ncu --import NAME.ncu-rep --page raw --csv --print-units base). It
has bytes of dram and L2, the share of cycles in which a tensor pipe works, occupancy, registers and
stalls, beside what attnlab's counters, schedules and compiler say. Bytes, FLOPs and registers that
differ by more than 2 % are marked; times are never compared, for ncu runs kernels one by one, each
several times. The launches must be those of the records, in their order: attnlab run of the same
points writes such records. FILE of --record stays as it is.

Examples:
  attnlab profile --kernel v2 --dtype f16 --seqlen 4k --print
  attnlab profile --kernel naive,v1,v2,v3 --dtype f16 --seqlen 4k --protocol cache=cold
  attnlab profile --kernel v3 --dtype f16 --seqlen 4k -- --set full --import-source yes
  attnlab profile --kernel v3 --dtype f16 --seqlen 4k --tool nsys --launches 20
  attnlab run --backend cuda --kernel v2 --dtype f16 --seqlen 4k --out v2.jsonl
  attnlab profile --import attnlab.ncu-rep --record v2.jsonl --out v2-ncu.jsonl

Exit codes: of the tool, which are those of attnlab run where all is well; else 0 good, 2 bad flags
or files, 3 no GPU, no tool, or the output could not be written.)";

struct ProfileFlags {
  SweepFlags sweep;
  std::shared_ptr<CompilerSettings> compiler;
  std::string protocol, import, record, out;
  std::string tool = "ncu";
  std::string report = "attnlab";
  std::optional<int> launches;
  bool print = false;
};

// Returns how to start this program again: as it was typed, if that names the file.
std::string own_program(const std::string& typed) {
  if (typed.find('/') != std::string::npos) return typed;
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

// Returns the command line of the run that the tool watches: that of this process, with its points.
std::vector<std::string> watched_run(int launches) {
  std::vector<std::string> words = own_arguments();
  words.erase(std::ranges::find(words, "--"), words.end());
  words = without_flags(words, {"--tool", "--report", "--launches", "--backend"});
  std::erase_if(
      words, [](const std::string& word) { return word.substr(0, word.find('=')) == "--print"; });
  words.at(0) = own_program(words.at(0));
  words.at(1) = "run";
  for (const std::string& word :
       {std::string("--backend"), std::string("cuda"), std::string("--profile"),
        std::to_string(launches), std::string("--no-progress")}) {
    words.push_back(word);
  }
  return words;
}

// Assumes a Hopper where there is no GPU and the command is only printed.
bool has_wgmma(const Device& device) {
  constexpr int kHopper = 90;
  return device.name.empty() || device.compute_capability == kHopper;
}

// Lists what ncu must count for the element types of all points, each once.
std::vector<std::string> metrics_of(const std::vector<Case>& cases, const Device& device) {
  std::vector<std::string> metrics;
  for (const Case& work : cases) {
    for (const std::string& name : ncu_metrics(work.problem.dtype, has_wgmma(device))) {
      if (std::ranges::find(metrics, name) == metrics.end()) metrics.push_back(name);
    }
  }
  return metrics;
}

Sweep make_sweep(const ProfileFlags& flags) {
  Sweep sweep = make_sweep(flags.sweep);
  if (!flags.protocol.empty()) set_protocol(sweep, flags.protocol, "--protocol");
  if (sweep.backend == BackendChoice::cpu && !flags.sweep.backend.empty()) {
    throw UsageError("--backend: Nsight profiles GPUs: leave it out, or say cuda");
  }
  if (!sweep.peers.empty()) {
    throw UsageError(
        "a peer runs in a process of its own, which has no ranges: profile a sweep without peers");
  }
  sweep.backend = BackendChoice::cuda;
  return sweep;
}

int launches_of(const ProfileFlags& flags, ProfilerTool tool) {
  if (flags.launches && tool == ProfilerTool::ncu) {
    throw UsageError("--launches: ncu looks at one launch, which it replays: leave it out");
  }
  return flags.launches.value_or(1);
}

std::string join_words(const std::vector<std::string>& words) {
  std::vector<std::string> shown;
  for (const std::string& word : words) shown.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(shown, " "));
}

void compile_before(const std::vector<Case>& cases, const Device& device) {
  CompileJobs jobs;
  jobs.add(cases, device);
  print_to(stdout, "{}\n", describe(compile_with_progress(jobs.all(), device.threads, true)));
}

int profile(const ProfileFlags& flags, const std::vector<std::string>& extra) {
  if (!flags.record.empty() || !flags.out.empty()) {
    throw UsageError("--record and --out go with --import: name the report there");
  }
  apply_compiler_flags(*flags.compiler);
  const ProfilerTool tool = parse_tool(flags.tool);
  const int launches = launches_of(flags, tool);
  const Sweep sweep = make_sweep(flags);
  const std::string path = flags.print ? find_profiler(tool) : require_profiler(tool);
  const Device device = choose_device(sweep.backend);
  if (device.name.empty() && !flags.print) {
    throw std::runtime_error(fmt::format("no GPU here: {}", why_no_device(Backend::cuda)));
  }
  const Protocol protocol = resolve(sweep.protocol, device);
  if (tool == ProfilerTool::nsys && protocol.cache == CacheState::cold) {
    throw UsageError("--tool nsys: it empties no caches: take ncu, or --protocol cache=hot");
  }
  const std::vector<Case> cases = expand(sweep, builtin_registry(), device);
  const std::vector<std::string> command =
      profiler_command(path.empty() ? to_string(tool) : path, {.tool = tool,
                                                               .cache = protocol.cache,
                                                               .metrics = metrics_of(cases, device),
                                                               .report = flags.report,
                                                               .extra = extra,
                                                               .program = watched_run(launches)});
  print_to(stdout, "{}\n", join_words(command));
  if (flags.print) return kExitGood;
  compile_before(cases, device);
  become(command);
}

int import(const ProfileFlags& flags, const std::vector<std::string>& extra) try {
  if (flags.record.empty() || flags.out.empty()) {
    throw UsageError(
        "--import: name the records of the same points, --record FILE, and the file that gets them "
        "with what ncu said, --out FILE");
  }
  const bool has_others = names_points(flags.sweep) || flags.print || !extra.empty();
  if (has_others) {
    throw UsageError("--import: reads a report and runs nothing: leave points, --print and -- out");
  }
  if (std::filesystem::exists(flags.out)) {
    throw UsageError(fmt::format("--out: {} is there already: name another", flags.out));
  }
  std::vector<std::string> warnings;
  const std::vector<RecordJson> records = read_records(flags.record, warnings);
  for (const std::string& warning : warnings) print_to(stderr, "attnlab profile: {}\n", warning);
  const std::vector<RecordJson> filled =
      import_ncu_report(read_profiler_report(flags.import), flags.import, records);
  try {
    write_records(filled, flags.out);
  } catch (const UsageError& error) {  // it comes of full disks, read-only folders
    throw std::runtime_error(error.what());
  }
  print_to(stdout, "{}", render_ncu_import(filled));
  return kExitGood;
} catch (const nlohmann::json::exception& error) {
  throw UsageError(fmt::format(
      "a record lacks a field or has it in another form: {}; attnlab run writes it", error.what()));
}

}  // namespace

Verb add_profile_verb(CLI::App& app, const CommandLine& command_line) {
  CLI::App* command = app.add_subcommand("profile", "Run points under Nsight, read its report");
  command->footer(kFooter);
  const auto flags = std::make_shared<ProfileFlags>();
  add_sweep_flags(*command, flags->sweep);
  add_list(*command, "--protocol", flags->protocol,
           "Any key of a sweep file's protocol, like cache=cold")
      ->type_name("KEY=N,...")
      ->group("Profiling");
  command->add_option("--tool", flags->tool, "ncu (Nsight Compute) or nsys (Nsight Systems)")
      ->type_name("NAME")
      ->group("Profiling");
  command->add_option("--launches", flags->launches, "Launches of each kernel under nsys (1)")
      ->type_name("N")
      ->transform(whole_number(1, 1000))
      ->group("Profiling");
  command->add_option("--report", flags->report, "Where the tool puts its report (attnlab)")
      ->type_name("NAME")
      ->group("Profiling");
  command->add_flag("--print", flags->print, "Print the command; run nothing")->group("Profiling");
  command->add_option("--import", flags->import, "A report of ncu: a .ncu-rep, or its raw page")
      ->type_name("FILE")
      ->group("Import");
  command->add_option("--record", flags->record, "Records of the points that were profiled")
      ->type_name("FILE")
      ->group("Import");
  command->add_option("--out", flags->out, "What gets the records with the report; must be new")
      ->type_name("FILE")
      ->group("Import");
  flags->compiler = add_compiler_flags(*command);
  return {command, [flags, extra = command_line.behind_dashes] {
            return flags->import.empty() ? profile(*flags, extra) : import(*flags, extra);
          }};
}

}  // namespace attnlab
