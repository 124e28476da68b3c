// attnlab gate --static: what the compiler makes of the kernels, against a committed baseline.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <thread>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/replacement.h"
#include "harness/base/shipped.h"
#include "harness/base/text_table.h"
#include "harness/cli/compiler_flags.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/verbs.h"
#include "harness/gate/static_facts.h"
#include "harness/session/compile_progress.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    "A hard gate that needs no GPU. --static compiles every default unit for sm_80 and sm_90a and\n"
    "compares registers, spills, stack, shared memory and the blocks that fit a multiprocessor, "
    "and\n"
    "of every default schedule the bytes, FLOPs, tiles, workspace and config, with a committed\n"
    "baseline. All of it is exact: any difference fails, also one for the better, until the\n"
    "baseline is of this tree again:\n"
    "\n"
    "  attnlab gate --static --update\n"
    "\n"
    "A baseline is of one version of NVRTC, whose registers are its own: with another one there "
    "is\n"
    "nothing to compare with, which is code 3 and never 0.\n"
    "\n"
    "Examples:\n"
    "  attnlab gate --static\n"
    "  attnlab gate --static --kernel-sources . --format json\n"
    "  attnlab gate --static --update --baseline results/static/nvrtc-13.0.json\n"
    "\n"
    "Exit codes:\n"
    "  0  nothing differs\n"
    "  1  a unit does not compile\n"
    "  2  bad flags or files\n"
    "  3  there is no NVRTC, or no baseline of its version\n"
    "  4  something differs";

struct GateFlags {
  bool is_static = false;
  bool update = false;
  std::string baseline;
  std::shared_ptr<CompilerSettings> compiler;
  std::optional<int> jobs;
  std::string format = "table";
  bool no_progress = false;
};

// "NVRTC 13.0" is in results/static/nvrtc-13.0.json.
std::filesystem::path baseline_of(const std::string& compiler) {
  std::string name = compiler;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return std::filesystem::path("results/static") / (name + ".json");
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw UsageError(fmt::format("{}: cannot be read", file.string()));
  return text.str();
}

int update(const nlohmann::ordered_json& facts, const std::filesystem::path& file) {
  const std::string text = facts.dump(1) + "\n";
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  Replacement replacement(file);
  replacement.write(std::as_bytes(std::span(text)));
  replacement.put_in_place();
  print_to(
      stdout, "{}",
      wrap(fmt::format(
          "{}: {} and {} of {}.", file.string(), count_of(facts["units"].size(), "unit"),
          count_of(facts["schedules"].size(), "schedule"), facts["compiler"].get<std::string>())));
  return kExitGood;
}

int compare_with(const std::filesystem::path& file, const nlohmann::ordered_json& facts,
                 TableFormat format) {
  const std::string compiler = facts["compiler"];
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    print_to(stderr,
             "attnlab gate: {}: there is no baseline of {}; attnlab gate --static --update "
             "makes one of this tree\n",
             file.string(), compiler);
    return kExitEnvironment;
  }
  const auto base = parse_static_facts(read_file(file), file.string());
  if (base["compiler"] != compiler) {
    print_to(stderr,
             "attnlab gate: {}: is of {}, and this is {}, whose registers are its own; "
             "--nvrtc chooses another one\n",
             file.string(), base["compiler"].get<std::string>(), compiler);
    return kExitEnvironment;
  }
  const std::vector<StaticChange> changes = static_changes(base, facts);
  const bool is_text = format == TableFormat::table || format == TableFormat::markdown;
  if (!changes.empty() || !is_text) print_to(stdout, "{}", render_static_changes(changes, format));
  if (is_text) {
    const std::string counted =
        fmt::format("{} and {} of {}", count_of(facts["units"].size(), "unit"),
                    count_of(facts["schedules"].size(), "schedule"), compiler);
    print_to(stdout, "{}",
             wrap(changes.empty()
                      ? counted + ": nothing differs."
                      : fmt::format("{}: {}. If that is meant: attnlab gate --static --update",
                                    counted, count_of(changes.size(), "difference"))));
  }
  return changes.empty() ? kExitGood : kExitSlower;
}

int run(const GateFlags& flags) {
  if (!flags.is_static) throw UsageError("--static: is the only gate so far: give it");
  const TableFormat format = parse_format(flags.format, "--format");
  apply_compiler_flags(*flags.compiler);
  const CompilePlan plan =
      plan_compilation(default_compile_sweep(), builtin_registry(), static_archs());
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const CompiledAhead ahead =
      compile_with_progress(plan.jobs, flags.jobs.value_or(cores), !flags.no_progress);
  for (const Compilation& compilation : ahead.compilations) {
    if (!compilation.entries.empty()) continue;  // one that spills has entries, and differs
    print_to(stderr, "attnlab gate: {} for {}: {}\n", compilation.unit, compilation.arch,
             compilation.error);
    return kExitVerificationFailed;
  }
  const nlohmann::ordered_json facts = static_facts(ahead.compilations, builtin_registry());
  const std::filesystem::path file = flags.baseline.empty()
                                         ? here_or_shipped(baseline_of(facts["compiler"]))
                                         : std::filesystem::path(flags.baseline);
  return flags.update ? update(facts, file) : compare_with(file, facts, format);
}

}  // namespace

Verb add_gate_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("gate", "Fail if kernels differ from a baseline");
  command->footer(kFooter);
  const auto flags = std::make_shared<GateFlags>();
  command->add_flag("--static", flags->is_static, "What the compiler makes of the kernels; no GPU")
      ->group("What");
  command->add_flag("--update", flags->update, "Write the baseline instead of comparing with it")
      ->group("What");
  command
      ->add_option("--baseline", flags->baseline,
                   "Compare with this file (default: results/static/nvrtc-VERSION.json)")
      ->type_name("FILE")
      ->group("What");
  command
      ->add_option("--jobs", flags->jobs,
                   "Compile so many at a time (default: the number of cores)")
      ->type_name("N")
      ->transform(whole_number(1, 4096))
      ->group("Where");
  flags->compiler = add_compiler_flags(*command);
  command->add_option("--format", flags->format, "table, markdown, csv or json")
      ->type_name("NAME")
      ->group("Output");
  command->add_flag("--no-progress", flags->no_progress, "No progress on standard error")
      ->group("Output");
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
