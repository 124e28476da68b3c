// Implements attnlab verify, which checks what every kernel must hold, through the registry.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/progress.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/verbs.h"
#include "harness/plan/axes.h"
#include "harness/plan/device_choice.h"
#include "harness/session/compile_progress.h"
#include "harness/session/run_sweep.h"
#include "harness/verify/summary.h"
#include "harness/verify/verify.h"
#include "kernels/api/runtime.h"

namespace attnlab {
namespace {

using verify::Outcome;
using verify::Part;
using verify::Result;

constexpr const char* kFooter =
    R"(Every kernel is run on fixed odd shapes and on random problems and held to the oracle, held to
properties that need no oracle, and repeated until its bits can be trusted. All outputs and
workspaces start as NaN, every tensor lies between guards, and inputs must be unchanged afterwards.
With --random, --properties or --repeat only these parts are run; without them, all.

Checks have names like v2/random/7/13/bwd: kernel, part, seed, number, pass. A failure is printed
with the one command that makes it again; --only takes such a name, or a glob. Kernels that have
e4m3 get as many random problems of it, like v3/random/e4m3/7/13/fwd; --only '*e4m3*' takes all
checks of e4m3.

Examples:
  attnlab verify
  attnlab verify --kernel v2,v3 --random 500 --seed 3
  attnlab verify --properties --isa avx2
  attnlab verify --repeat 1000 --kernel v3 --threads 4
  attnlab verify --only '*/shapes/packed/*' --junit verify.xml
  attnlab verify --kernel v3 --random 500 --only '*/random/e4m3/*'
  attnlab verify --kernel v2 --only v2/random/7/13/bwd

Exit codes: 0 good, 1 a check failed, 2 bad flags, 3 nothing could be checked.)";

constexpr std::size_t kMostFailures = 20;

// Holds the flags as they were given; an empty one was not given.
struct VerifyFlags {
  std::string kernel, backend, isa, only, junit;
  std::string format = "table";
  std::shared_ptr<CompilerSettings> compiler;
  double timeout = kDefaultTimeout;
  std::optional<int> random, repeat, threads;
  std::uint64_t seed = verify::kDefaultSeed;
  bool properties = false;
  bool no_progress = false;
};

// Reports a kernel that was asked for but does not exist as skipped, so that it is not forgotten.
Result missing(const std::string& kernel, Backend backend) {
  return {.name = kernel + "/all",
          .kernel = kernel,
          .backend = backend,
          .outcome = Outcome::skipped,
          .message = fmt::format("there is no {} kernel of this name yet", to_string(backend))};
}

// Fills in the kernels that exist, and returns a result for each of the others.
std::vector<Result> choose_kernels(const VerifyFlags& flags, verify::Options& options) {
  const Registry& registry = builtin_registry();
  const Backend backend = options.device->backend;
  std::vector<Result> absent;
  if (flags.kernel.empty()) {
    for (const Implementation* kernel : registry.all()) {
      if (kernel->backend == backend) options.kernels.push_back(kernel);
    }
    if (options.kernels.empty()) absent.push_back(missing("all", backend));
    return absent;
  }
  for (const std::string& name : split_list(flags.kernel, "--kernel")) {
    check_kernel_name(name, registry);
    const Implementation* kernel = registry.find(name, backend);
    if (kernel == nullptr) {
      absent.push_back(missing(name, backend));
    } else if (std::ranges::find(options.kernels, kernel) == options.kernels.end()) {
      options.kernels.push_back(kernel);
    }
  }
  return absent;
}

std::vector<Part> choose_parts(const VerifyFlags& flags) {
  std::vector<Part> parts;
  if (flags.random) parts.push_back(Part::random);
  if (flags.properties) parts.push_back(Part::properties);
  if (flags.repeat) parts.push_back(Part::repeats);
  if (parts.empty()) parts.assign(std::begin(verify::kAllParts), std::end(verify::kAllParts));
  return parts;
}

// Returns "shapes/lengths" for "v2/shapes/lengths/257/causal", "random" for "v2/random/7/13/bwd".
std::string group_of(const std::string& name) {
  const std::size_t begin = name.find('/') + 1;
  const std::size_t end = name.find('/', begin);
  const std::string part = name.substr(begin, end - begin);
  if (part == verify::to_string(Part::random)) return part;
  return name.substr(begin, name.find('/', end + 1) - begin);
}

std::vector<Result> run_checks(const verify::Options& options, bool show_progress,
                               std::FILE* notes) {
  std::optional<Progress> progress;
  std::string group;
  verify::Observer observer;
  observer.compile = [&](const std::vector<CompileJob>& jobs) {
    print_to(notes, "{}\n",
             describe(compile_with_progress(jobs, options.device->threads, show_progress)));
    std::fflush(notes);
  };
  if (show_progress) {
    observer.planned = [&](double weight) { progress.emplace(stderr, weight); };
    observer.begins = [&](const std::string& name) {
      if (group_of(name) != group) progress->begin(group = group_of(name));
      progress->phase(name);
    };
    observer.ended = [&](const Result& result, double weight) {
      if (result.outcome == Outcome::failed) progress->line("FAILED " + result.name);
      progress->advance(weight);
    };
  }
  return verify::verify(options, observer);
}

// Opens the file before anything runs, so that a wrong path costs no time.
std::ofstream open_junit(const std::string& path) {
  std::ofstream file;
  if (path.empty()) return file;
  file.open(path);
  if (!file) {
    throw UsageError(
        fmt::format("--junit: '{}' cannot be written: name a file in a folder that "
                    "exists and is yours",
                    path));
  }
  return file;
}

int exit_code(const std::vector<Result>& results) {
  const auto any = [&](Outcome outcome) {
    return std::ranges::find(results, outcome, &Result::outcome) != results.end();
  };
  if (any(Outcome::failed)) return kExitVerificationFailed;
  return any(Outcome::passed) ? kExitGood : kExitEnvironment;
}

int run(const VerifyFlags& flags) {
  const TableFormat format = parse_format(flags.format, "--format");
  const BackendChoice choice =
      flags.backend.empty() ? BackendChoice::automatic : parse_backend(flags.backend, "--backend");
  apply_compiler_flags(*flags.compiler);
  Device device = choose_device(choice);
  set_cpu(device, flags.threads, flags.isa);
  verify::Options options{.device = &device,
                          .parts = choose_parts(flags),
                          .random = flags.random.value_or(verify::kDefaultRandom),
                          .repeat = flags.repeat.value_or(verify::kDefaultRepeat),
                          .seed = flags.seed,
                          .only = flags.only};
  std::vector<Result> results = choose_kernels(flags, options);
  if (!flags.only.empty() && results.empty() && verify::list(options).empty()) {
    throw UsageError(fmt::format(
        "--only: '{}' matches no check: names are KERNEL/PART/..., as --format json and --junit "
        "list them",
        flags.only));
  }
  if (!device.name.empty()) runtime_of(device).set_timeout(flags.timeout);
  std::ofstream junit = open_junit(flags.junit);

  // Data formats need standard output to themselves, so the notes go elsewhere.
  const bool data_only = format == TableFormat::csv || format == TableFormat::json;
  std::FILE* const notes = data_only ? stderr : stdout;
  print_to(notes, "Device: {}. Seed {}.\n\n", describe(device), flags.seed);
  std::fflush(notes);
  for (Result& result : run_checks(options, !flags.no_progress, notes)) {
    results.push_back(std::move(result));
  }
  print_to(stdout, "{}", verify::render_summary(results, format));
  std::fflush(stdout);
  for (const std::string& note :
       {verify::render_random(results), verify::render_skipped(results)}) {
    if (!note.empty()) print_to(notes, "\n{}", note);
  }
  print_to(notes, "{}", verify::render_failures(results, kMostFailures));
  if (!flags.junit.empty()) {
    junit << verify::render_junit(results) << std::flush;
    if (!junit) throw std::runtime_error("could not write " + flags.junit);
    print_to(notes, "\nJUnit report: {}\n", flags.junit);
  }
  return exit_code(results);
}

}  // namespace

Verb add_verify_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("verify", "Check kernels: shapes, random problems, properties, repeats");
  command->footer(kFooter);
  const auto flags = std::make_shared<VerifyFlags>();
  add_list(*command, "--kernel", flags->kernel, "Kernels, by name (default: all)")
      ->type_name("NAME,...")
      ->group("What");
  command->add_option("--random", flags->random, "Random problems for each kernel and pass (128)")
      ->type_name("N")
      ->transform(whole_number(1, 1000000))
      ->group("What");
  command->add_flag("--properties", flags->properties, "Properties that need no oracle")
      ->group("What");
  command->add_option("--repeat", flags->repeat, "Launches that must leave the same bits (64)")
      ->type_name("N")
      ->transform(whole_number(2, 1000000))
      ->group("What");
  command->add_option("--seed", flags->seed, "Where all inputs and problems come from (default: 7)")
      ->type_name("N")
      ->transform(whole_number(0, ~std::uint64_t{0}))
      ->group("What");
  command->add_option("--only", flags->only, "Checks whose name matches, like '*/random/*/bwd'")
      ->type_name("GLOB")
      ->group("What");
  command->add_option("--backend", flags->backend, "auto, cpu or cuda (default: auto)")
      ->type_name("NAME")
      ->group("Where");
  command->add_option("--threads", flags->threads, "CPU threads (default: all)")
      ->type_name("N")
      ->transform(whole_number(1, 4096))
      ->group("Where");
  command->add_option("--isa", flags->isa, "Instruction set of the CPU kernels (default: the best)")
      ->type_name("NAME")
      ->group("Where");
  command->add_option("--junit", flags->junit, "Write every result to this file as JUnit XML")
      ->type_name("FILE")
      ->group("Output");
  command->add_option("--format", flags->format, "table, markdown, csv or json (of the summary)")
      ->type_name("NAME")
      ->group("Output");
  add_no_progress(*command, flags->no_progress);
  command->add_option("--timeout", flags->timeout, "A launch on a GPU that takes longer hangs (60)")
      ->type_name("S")
      ->check(number_between(1e-3, 86400.0))
      ->group("Where");
  flags->compiler = add_compiler_flags(*command);
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
