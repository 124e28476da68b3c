// Implements attnlab gate, which fails where kernels became slower, larger or wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/output.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/gate_plan.h"
#include "harness/cli/static_gate.h"
#include "harness/cli/verbs.h"
#include "harness/plan/axes.h"
#include "harness/plan/device_choice.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/report/field.h"
#include "harness/report/gate_report.h"
#include "harness/run/context.h"
#include "harness/session/device_lock.h"
#include "harness/session/gate.h"
#include "harness/session/gate_sides.h"
#include "harness/session/gate_trial.h"
#include "harness/session/listed_points.h"
#include "harness/session/planted_texts.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(A gate measures a sweep and says by its exit code whether anything became slower, larger or wrong.

--against: this program (the head) and another one (the base) take turns, sample by sample, in
processes of their own; who begins is drawn and then the other way round. The base is an attnlab, or
a source tree whose kernels this program compiles (GPU). --baseline: the head alone, beside stored
records of the same device, driver, power limit and compiler of kernels. What looks slower, cannot
be told or was not measured is measured again by three more pairs of processes; their samples
together count, and where the pairs disagree nobody can tell.

--candidate: further heads, to compare several versions of a kernel with the base in one run. All
take turns, and each is judged by itself; the exit code is the first that applies to any of them.

A change of time counts from three times this machine's noise on, which attnlab calibrate measures,
and at least 1 %; from 5 % on where that was not measured. Beside times: what attnlab compare judges.
Without a GPU a gate ends with 3; --backend cpu gates the kernels of the CPU.

On a GPU each side is run once more after the timing, a round of each point, to see which kernels it
launches. The report names who ran a copy, cast or fill beyond what its operation needs, and of how
many points nobody saw it. More such launches than on the base are worse (--fail-on kernels).

--static compares what the compiler makes of the default units (head dims 64 and 128), and what the
schedules count, with a committed baseline, exactly; it needs no GPU. After a change that is meant:
attnlab gate --static --update

--self-test measures a pair that is equal and one that is slower by a share that it measures first
(on a GPU three such pairs), and fails if the gate is wrong about any.

Examples:
  attnlab gate sweeps/gate.json --against ../base/build/cpu/attnlab
  attnlab gate sweeps/gate.json --against ../base --kernel v3 --budget 10m
  attnlab gate sweeps/gate.json --baseline results/base.jsonl --junit gate.xml
  attnlab gate --kernel v2 --seqlen 1k --against build/old/attnlab --rounds 50
  attnlab gate --kernel v3 --against . --candidate early=../early --candidate late=../late
  attnlab gate --static
  attnlab gate --self-test

Exit codes, the first that applies:
  2  bad flags or files
  1  the head fails its verification; --static: a unit does not compile
  3  no GPU, another gate has the device, a point of the head is invalid or missing, a run broke
     off, a clock did not settle twice; --self-test: the gate was wrong, or cannot tell here
  4  slower, or another value is worse; --static: something differs
  5  ambiguous: what cannot be told, or was not measured on the base; what did not fit --budget
  0  same or faster, and everything was measured)";

struct GateFlags {
  bool is_static = false;
  bool self_test = false;
  StaticGateFlags compiled;
  GatePointFlags points;
  std::string against, candidates, budget, fail_on, junit, summary, benchmark;
  std::optional<double> threshold_percent;
};

// Reads "90s", "10m", "1h" or seconds.
double parse_seconds(const std::string& text, const std::string& where) {
  const std::pair<char, double> units[] = {{'s', 1.0}, {'m', 60.0}, {'h', 3600.0}};
  std::string number = text;
  double unit = 1.0;
  for (const auto& [letter, seconds] : units) {
    if (!text.empty() && text.back() == letter) {
      unit = seconds;
      number.pop_back();
    }
  }
  const CLI::Validator valid = number_between(1e-3, 1e6);
  if (!valid(number).empty()) {
    throw UsageError(fmt::format("{}: '{}' is no time like 90s, 10m or 1h", where, text));
  }
  return unit * std::stod(number);
}

// Returns the last record of each point, among several regimes and caches the one that will be
// measured. It leaves counted bytes out, since a gate runs without counters and has none to
// compare.
std::vector<RecordJson> read_baseline(const std::string& file, const Protocol& protocol) {
  std::vector<std::string> warnings;
  std::vector<RecordJson> records = read_records(file, warnings);
  for (const std::string& warning : warnings) print_to(stderr, "attnlab gate: {}\n", warning);
  std::erase_if(records, [&](const RecordJson& record) {
    const RecordJson regime = at(record, {"protocol", "regime"});  // older records have none
    const RecordJson cache = at(record, {"protocol", "cache"});
    return (regime.is_string() && regime != to_string(protocol.regime)) ||
           (cache.is_string() && cache != to_string(protocol.cache));
  });
  if (records.empty())
    throw UsageError(fmt::format("--baseline: {}: holds no records of regime {} and cache {}", file,
                                 to_string(protocol.regime), to_string(protocol.cache)));
  for (RecordJson& record : records) {
    if (at(record, {"traffic"}).is_object()) record["traffic"]["valid"] = false;
  }
  return last_of_each_point(records);
}

// Returns the points that fit the budget, nothing if all do; prints those that do not fit.
std::optional<PointLists> within_budget(const GatePlan& plan, const GateFlags& flags,
                                        std::FILE* notes) {
  double budget = flags.budget.empty() ? 0.0 : parse_seconds(flags.budget, "--budget");
  double total = 0.0;
  for (const Case& work : plan.run.cases)
    total += expected_seconds(plan.run, work, plan.device, plan.protocol);
  // Each head and the base have three more processes where points are measured again.
  const auto heads = static_cast<double>(1 + plan.run.candidates.size());
  const double sides = heads + (plan.run.base ? 1.0 : 0.0);
  const double again = 1.0 + 3.0 * heads * (plan.run.base ? 2.0 : 1.0) / sides;
  print_to(notes, "{}",
           wrap(fmt::format("This takes about {:.0f} s, and up to {:.2g} times as long where "
                            "points are measured again.",
                            total, again)));
  if (flags.budget.empty() || total <= budget) return std::nullopt;
  std::vector<Case> fitting;
  for (const Case& work : plan.run.cases) {
    const double own = expected_seconds(plan.run, work, plan.device, plan.protocol);
    if (own > budget) {
      print_to(notes, "{}",
               wrap(fmt::format("Does not fit --budget {}: {}", flags.budget, work.problem.id())));
      continue;
    }
    budget -= own;
    fitting.push_back(work);
  }
  if (fitting.empty()) {
    throw UsageError(fmt::format("--budget {}: not one case fits: give more", flags.budget));
  }
  const RunContext context = {.device = &plan.device, .protocol = plan.protocol};
  PointLists points = {.head = planned_keys(fitting, context)};
  points.base = asked_keys(fitting, context);  // the base may choose another tile
  points.base_also = points.head;
  return points;
}

// Chooses v2's forward where flags name no points: on a GPU its text is what plants change.
void set_trial_points(SweepFlags& flags) {
  if (names_points(flags)) return;
  const BackendChoice choice =
      flags.backend.empty() ? BackendChoice::automatic : parse_backend(flags.backend, "--backend");
  const bool is_gpu = choose_device(choice).backend == Backend::cuda;
  set_axis_flag(flags, "kernel", "v2");
  set_axis_flag(flags, "pass", "fwd");
  set_axis_flag(flags, "heads", is_gpu ? "16" : "4");
  set_axis_flag(flags, "seqlen", is_gpu ? "4096" : "256");
  if (!is_gpu) return;
  set_axis_flag(flags, "dtype", "f16");
  set_axis_flag(flags, "head_dim", "128");
  set_axis_flag(flags, "batch", "2");
}

// Returns ways to make this program slower: on a GPU other kernel texts, on a CPU idle time behind
// each launch, three times what counts as a change.
std::vector<Plant> plants_of(const GatePlan& plan) {
  if (plan.device.backend == Backend::cuda) {
    std::vector<Plant> plants;
    for (const TextPlant& text : text_plants()) {
      const std::filesystem::path folder =
          plan.run.folder / fmt::format("kernels-{}", plants.size() + 1);
      write_planted(text, kernel_texts(), folder);
      plants.push_back(
          {.what = text.what, .head = own_side("head", compiler_settings(), folder.string())});
    }
    return plants;
  }
  constexpr double kFarAbove = 3.0;
  double counts = plan.options.threshold;
  if (plan.options.threshold_of) {
    for (const double seconds : {50e-6, 500e-6, 5e-3, 50e-3}) {  // one of each size class
      counts = std::max(counts, noise_threshold(plan.usable_noise, NoiseOf::turns,
                                                plan.protocol.regime, seconds, counts));
    }
  }
  GateSide slow = plan.run.head;
  slow.arguments.push_back(fmt::format("--planted-percent={:.3g}", 100.0 * kFarAbove * counts));
  return {{.what = "time at a launch's end", .head = std::move(slow)}};
}

void write_file(const std::string& file, const std::string& text, const char* flag) {
  if (file.empty()) return;
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  stream.close();
  if (!stream) throw UsageError(fmt::format("{}: {}: cannot be written", flag, file));
}

// Reads the sides of --candidate NAME=PATH,... Names become those of files.
std::vector<GateSide> candidates_of(const GateFlags& flags, const Device& device) {
  if (flags.candidates.empty()) return {};
  std::set<std::string> names = {"base", "head"};
  std::vector<GateSide> sides;
  for (const std::string& text : split_list(flags.candidates, "--candidate")) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const bool is_name = !name.empty() && std::ranges::all_of(name, [](char c) {
      return (std::isalnum(static_cast<unsigned char>(c)) != 0) || c == '_' || c == '-';
    });
    if (equals == std::string::npos || !is_name) {
      throw UsageError(fmt::format(
          "--candidate: '{}' is no NAME=PATH with a name of letters, digits, _ and -", text));
    }
    if (!names.insert(name).second || name.starts_with("base-") || name.starts_with("head-")) {
      throw UsageError(fmt::format(
          "--candidate: {}: files of another side are called so: choose another name", name));
    }
    sides.push_back(named_side(name, "--candidate", text.substr(equals + 1),
                               *flags.compiled.compiling.compiler, device));
  }
  return sides;
}

// Refuses what has room for one head.
void refuse_beside_candidates(const GateFlags& flags, TableFormat format) {
  const std::pair<const char*, bool> others[] = {{"--junit", !flags.junit.empty()},
                                                 {"--summary", !flags.summary.empty()},
                                                 {"--benchmark-json", !flags.benchmark.empty()},
                                                 {"--format csv", format == TableFormat::csv}};
  for (const auto& [flag, is_given] : others) {
    if (is_given) {
      throw UsageError(fmt::format("{}: is of one head: leave --candidate out, or this", flag));
    }
  }
}

int run_measured(const GateFlags& flags) {
  const TableFormat format = parse_format(flags.compiled.compiling.format, "--format");
  const bool is_text = format == TableFormat::table || format == TableFormat::markdown;
  std::FILE* const notes = is_text ? stdout : stderr;
  const CompilingFlags& compiling = flags.compiled.compiling;
  GatePlan plan =
      make_gate_plan(flags.points, *compiling.compiler, "results/gate", !compiling.no_progress);
  NoiseOf kind = NoiseOf::turns;
  plan.run.candidates = candidates_of(flags, plan.device);
  if (!plan.run.candidates.empty()) refuse_beside_candidates(flags, format);
  if (!flags.against.empty()) {
    plan.run.base =
        named_side("base", "--against", flags.against, *compiling.compiler, plan.device);
  } else {
    plan.run.baseline = read_baseline(flags.compiled.baseline, plan.protocol);
    plan.options.base_is_stored = true;
    kind = NoiseOf::sessions;
  }
  if (!flags.fail_on.empty()) {
    plan.options.fail_on = parse_judged(split_list(flags.fail_on, "--fail-on"), "--fail-on");
  }
  const bool is_gpu = plan.device.backend == Backend::cuda;
  plan.run.why_no_kernels = is_gpu ? "" : "on a CPU our kernels are functions of the program";
  set_thresholds(plan, kind, flags.threshold_percent);
  const DeviceLock lock(plan.device);
  make_records_folder(plan);
  write_file(flags.junit, junit_of_no_end(), "--junit");  // stays if the gate breaks off
  write_file(flags.summary, "## attnlab gate: did not end\n", "--summary");
  write_file(flags.benchmark, "[]\n", "--benchmark-json");
  print_to(notes, "{}{}",
           wrap(fmt::format("Device: {}. {} rounds.", describe(plan.device), plan.run.rounds)),
           wrap(describe_thresholds(plan, kind)));
  const std::optional<PointLists> fitting = within_budget(plan, flags, notes);
  std::fflush(notes);
  const InterruptWatch watch;
  std::vector<GateResult> results;
  try {
    results = run_gate(plan.run, plan.options, fitting ? &*fitting : nullptr);
  } catch (const Interrupted&) {
    print_to(stderr, "attnlab gate: interrupted; what was measured is in {}\n",
             plan.run.folder.string());
    end_by_signal(InterruptWatch::signal());
  }
  std::vector<GateReport> reports;
  for (GateResult& result : results) {
    if (fitting && result.code == kExitGood) result.code = kExitAmbiguous;
    reports.push_back({.head = result.head,
                       .comparison = result.comparison,
                       .options = plan.options,
                       .troubles = result.sides.troubles,
                       .kernels = {kernels_of_side("base", result.sides.base),
                                   kernels_of_side(result.head, result.sides.head)},
                       .measured_again = result.measured_again,
                       .left_out = fitting.has_value(),
                       .code = result.code});
  }
  write_file(flags.junit, junit_of(reports.front()), "--junit");
  write_file(flags.summary, summary_page(reports.front()), "--summary");
  write_file(flags.benchmark, benchmark_json(results.front().sides.head), "--benchmark-json");
  const int code = worst_code(results);
  print_to(stdout, "{}",
           reports.size() == 1 ? render_gate(reports.front(), format)
                               : render_gates(reports, format, code));
  const char* const on_github = std::getenv("GITHUB_ACTIONS");
  if (on_github != nullptr && std::string(on_github) == "true") {
    for (const GateReport& report : reports) print_to(notes, "{}", github_annotations(report));
  }
  print_to(notes, "\nRecords: {}\n", plan.run.folder.string());
  return code;
}

int run_self_test(const GateFlags& flags) {
  const CompilingFlags& compiling = flags.compiled.compiling;
  GatePointFlags points = flags.points;
  set_trial_points(points.sweep);
  GatePlan plan =
      make_gate_plan(points, *compiling.compiler, "results/self-test", !compiling.no_progress);
  set_thresholds(plan, NoiseOf::turns, flags.threshold_percent);
  plan.run.base = own_side("base", *compiling.compiler, compiling.compiler->source_folder);
  const DeviceLock lock(plan.device);
  make_records_folder(plan);
  print_to(stdout, "{}{}",
           wrap(fmt::format("Device: {}. {} rounds.", describe(plan.device), plan.run.rounds)),
           wrap(describe_thresholds(plan, NoiseOf::turns)));
  std::fflush(stdout);
  const InterruptWatch watch;
  std::vector<SelfTest> tests;
  try {
    tests = self_test(plan.run, plants_of(plan), plan.options);
  } catch (const Interrupted&) {
    end_by_signal(InterruptWatch::signal());
  }
  bool all_right = true;
  for (const SelfTest& test : tests) {
    const bool right = test.code == test.expected && (!test.planted || test.planted->counts);
    all_right &= right;
    const std::string planted =
        test.planted ? fmt::format(": {:+.2f} % ({:+.2f} to {:+.2f})", 100.0 * test.planted->share,
                                   100.0 * (test.planted->ratio95.low - 1.0),
                                   100.0 * (test.planted->ratio95.high - 1.0))
                     : "";
    print_to(
        stdout, "{}",
        wrap(fmt::format(
            "{}{}: exit code {}, expected {}: {}", test.what, planted, test.code, test.expected,
            right                                   ? "right"
            : test.planted && !test.planted->counts ? "the planted share is too small to count here"
            : test.code == kExitAmbiguous           ? "cannot be told here"
                                                    : "WRONG")));
  }
  print_to(stdout, "\nRecords: {}\n", plan.run.folder.string());
  return all_right ? kExitGood : kExitEnvironment;
}

// Refuses the flags that only a gate of a sweep takes.
void refuse_beside(const char* mode, const GateFlags& flags) {
  const std::pair<const char*, bool> others[] = {
      {"--budget", !flags.budget.empty()},   {"--candidate", !flags.candidates.empty()},
      {"--fail-on", !flags.fail_on.empty()}, {"--junit", !flags.junit.empty()},
      {"--summary", !flags.summary.empty()}, {"--benchmark-json", !flags.benchmark.empty()}};
  for (const auto& [flag, is_given] : others) {
    if (is_given) throw UsageError(fmt::format("{}: {} takes none: leave it out", flag, mode));
  }
}

int run(const GateFlags& flags) {
  const bool is_measured =
      !flags.against.empty() || (!flags.is_static && !flags.compiled.baseline.empty());
  if (flags.is_static + flags.self_test + is_measured != 1 ||
      (!flags.against.empty() && !flags.compiled.baseline.empty())) {
    throw UsageError(
        "give one of: --against PROGRAM or SOURCES, --baseline RECORDS, --static, --self-test");
  }
  if (flags.is_static) {
    refuse_beside("--static", flags);
    if (flags.threshold_percent) throw UsageError("--threshold: --static is exact: leave it out");
    const bool chooses = names_points(flags.points.sweep) || !flags.points.sweep.backend.empty() ||
                         !flags.points.protocol.empty() || flags.points.rounds.has_value();
    if (chooses)
      throw UsageError("--static: compares all default units: leave out what chooses points");
    if (!flags.points.out.empty()) {
      throw UsageError("--out: --static measures nothing and keeps no records: leave it out");
    }
    return run_static_gate(flags.compiled);
  }
  if (flags.compiled.update) {
    throw UsageError("--update: belongs to --static: leave it out");
  }
  if (flags.self_test) {
    refuse_beside("--self-test", flags);
    if (flags.compiled.compiling.format != "table") {
      throw UsageError("--format: --self-test prints sentences: leave it out");
    }
    return run_self_test(flags);
  }
  return run_measured(flags);
}

}  // namespace

Verb add_gate_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("gate", "Fail if kernels became slower, larger or wrong");
  command->footer(kFooter);
  const auto flags = std::make_shared<GateFlags>();
  add_gate_point_flags(*command, flags->points, "Samples of each side (30); again: three times");
  command
      ->add_option("--against", flags->against,
                   "Take turns with this attnlab, or with the kernels of this source tree")
      ->type_name("PATH")
      ->group("What");
  add_list(*command, "--candidate", flags->candidates,
           "Further heads, each judged by itself: an attnlab or a source tree")
      ->type_name("NAME=PATH,...")
      ->group("What");
  command
      ->add_option("--baseline", flags->compiled.baseline,
                   "Compare with these records; of --static: results/static/nvrtc-VERSION.json")
      ->type_name("FILE")
      ->group("What");
  command->add_flag("--static", flags->is_static, "What the compiler makes of the kernels; no GPU")
      ->group("What");
  command->add_flag("--update", flags->compiled.update, "--static: write the baseline instead")
      ->group("What");
  command
      ->add_flag("--self-test", flags->self_test, "Whether the gate tells equal from slower here")
      ->group("What");
  command->add_option("--budget", flags->budget, "Leave out what takes longer: 90s, 10m, 1h")
      ->type_name("TIME")
      ->group("Measurement");
  command
      ->add_option("--threshold", flags->threshold_percent,
                   "Ignore a smaller change of time (default: by the machine's noise)")
      ->type_name("PERCENT")
      ->check(number_between(1e-3, 99.0))
      ->group("Judgement");
  add_fail_on(*command, flags->fail_on);
  command->add_option("--out", flags->points.out, "Folder of the records (results/gate-<time>)")
      ->type_name("FOLDER")
      ->group("Output");
  command->add_option("--junit", flags->junit, "Write JUnit XML: a test case a point")
      ->type_name("FILE")
      ->group("Output");
  command->add_option("--summary", flags->summary, "Write a Markdown page, the worst first")
      ->type_name("FILE")
      ->group("Output");
  command
      ->add_option("--benchmark-json", flags->benchmark,
                   "Write times as customSmallerIsBetter of github-action-benchmark")
      ->type_name("FILE")
      ->group("Output");
  add_compiling_flags(*command, flags->compiled.compiling);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
