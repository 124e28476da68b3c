#include "harness/cli/static_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/shipped.h"
#include "harness/base/text_file.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/record/repro.h"
#include "harness/report/static_facts.h"

namespace attnlab {
namespace {

constexpr const char* kFolder = "results/static";

// Returns the file of "NVRTC 13.0": results/static/nvrtc-13.0.json.
std::filesystem::path baseline_of(const std::string& compiler) {
  std::string name = compiler;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return std::filesystem::path(kFolder) / (name + ".json");
}

nlohmann::ordered_json read_baseline(const std::filesystem::path& file) {
  std::error_code error;
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!std::filesystem::is_regular_file(file, error) || stream.bad() || !stream.is_open()) {
    throw UsageError(
        fmt::format("{}: is no file that can be read; --baseline names one that "
                    "attnlab gate --static --update wrote",
                    file.string()));
  }
  return parse_static_facts(text.str(), file.string());
}

int update(const nlohmann::ordered_json& facts, const std::filesystem::path& file) {
  const std::string text = facts.dump(1) + "\n";
  replace_text(file, text);
  print_to(
      stdout, "{}",
      wrap(fmt::format(
          "{}: {} and {} of {}.", file.string(), count_of(facts["units"].size(), "unit"),
          count_of(facts["schedules"].size(), "schedule"), facts["compiler"].get<std::string>())));
  return kExitGood;
}

int compare_with(const nlohmann::ordered_json& base, const nlohmann::ordered_json& facts,
                 const StaticGateFlags& flags, TableFormat format) {
  const std::vector<StaticChange> changes = static_changes(base, facts);
  const bool is_text = format == TableFormat::table || format == TableFormat::markdown;
  if (!changes.empty() || !is_text) {
    print_to(stdout, "{}{}", render_static_changes(changes, format), is_text ? "\n" : "");
  }
  const int code = changes.empty() ? kExitGood : kExitSlower;
  if (!is_text) return code;
  const std::string counted = fmt::format(
      "{} and {} of {}", count_of(facts["units"].size(), "unit"),
      count_of(facts["schedules"].size(), "schedule"), facts["compiler"].get<std::string>());
  std::string remedy;  // the same kernels, compiler and file
  for (const auto& [flag, value] :
       {std::pair("--baseline", flags.baseline),
        std::pair("--kernel-sources", flags.compiling.compiler->source_folder),
        std::pair("--nvrtc", flags.compiling.compiler->library)}) {
    if (!value.empty()) remedy += fmt::format(" {} {}", flag, shell_word(value));
  }
  print_to(
      stdout, "{}",
      wrap(changes.empty() ? counted + ": nothing differs."
                           : fmt::format("{}: {}. If that is meant: attnlab gate --static "
                                         "--update{}",
                                         counted, count_of(changes.size(), "difference"), remedy)));
  return code;
}

// Says which units do not compile. One that spills does compile, and counts as a difference.
bool any_failed(const std::vector<Compilation>& compilations) {
  bool failed = false;
  for (const Compilation& compilation : compilations) {
    if (!compilation.entries.empty()) continue;
    failed = true;
    print_to(stderr, "attnlab gate: {} for {}: {}\n", compilation.unit, compilation.arch,
             compilation.error);
  }
  return failed;
}

}  // namespace

int run_static_gate(const StaticGateFlags& flags) {
  if (flags.compiling.compiler->debug) {
    throw UsageError("--debug-kernels: such kernels take other registers; leave it out");
  }
  const TableFormat format = parse_format(flags.compiling.format, "--format");
  std::error_code error;
  if (flags.update && flags.baseline.empty() && !std::filesystem::is_directory(kFolder, error)) {
    throw UsageError(fmt::format(
        "--update: there is no {} here: run it in the source tree, or name a file with --baseline",
        kFolder));
  }
  apply_compiler_flags(*flags.compiling.compiler);
  std::optional<nlohmann::ordered_json> base;  // read before minutes of compiling
  if (!flags.update && !flags.baseline.empty()) base = read_baseline(flags.baseline);
  const CompilePlan plan =
      plan_compilation(default_compile_sweep(), builtin_registry(), static_archs());
  const std::vector<Compilation> compilations = compile(plan, flags.compiling).compilations;
  if (any_failed(compilations)) return kExitVerificationFailed;
  const nlohmann::ordered_json facts = static_facts(compilations, builtin_registry());
  const std::string compiler = facts["compiler"];
  const std::filesystem::path own = baseline_of(compiler);
  if (flags.update)
    return update(facts, flags.baseline.empty() ? own : std::filesystem::path(flags.baseline));
  if (!base) {
    const std::filesystem::path file = here_or_shipped(own);
    if (!std::filesystem::exists(file, error)) {
      print_to(stderr,
               "attnlab gate: {}: there is no baseline of {}; attnlab gate --static --update makes "
               "one of this tree\n",
               own.string(), compiler);
      return kExitEnvironment;
    }
    base = read_baseline(file);
  }
  if ((*base)["compiler"] != compiler) {
    print_to(stderr,
             "attnlab gate: the baseline is of {}, and this is {}, whose registers are its own; "
             "--nvrtc chooses another one\n",
             (*base)["compiler"].get<std::string>(), compiler);
    return kExitEnvironment;
  }
  return compare_with(*base, facts, flags, format);
}

}  // namespace attnlab
