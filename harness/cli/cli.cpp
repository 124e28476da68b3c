#include "harness/cli/cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/page.h"
#include "harness/base/suggest.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/help.h"
#include "harness/cli/verbs.h"
#include "harness/record/repro.h"

namespace attnlab {
namespace {

constexpr const char* kDescription =
    "attnlab: a laboratory for attention kernels. Runs sweeps over sequence lengths, head dims,\n"
    "masks and block sizes, verifies every point against an independent oracle, times the kernels\n"
    "interleaved, and records time, memory and traffic.";

constexpr const char* kFooter =
    "Examples:\n"
    "  attnlab doctor\n"
    "  attnlab list\n"
    "  attnlab model --seqlen 8k --dtype f16 --mask causal --gpu H100\n"
    "  attnlab run sweeps/quick.json\n"
    "  attnlab run --kernel naive,v2 --seqlen 512:4096:x2 --mask none,causal\n"
    "  attnlab verify --kernel v2 --random 500\n"
    "  attnlab compile --arch sm_80,sm_90a\n"
    "  attnlab sass v3-forward-f16-d128\n"
    "  attnlab peak\n"
    "  attnlab table results/*.jsonl --rows seqlen,mask --cols kernel --value time_ms\n"
    "  attnlab compare before.jsonl after.jsonl\n"
    "\n"
    "Text is as wide as the terminal: $COLUMNS, else what it says. A table that is wider comes in\n"
    "parts, one below the other, each with the columns that tell its rows apart, or with numbers\n"
    "of the rows where these leave no room. Where there is no terminal, text takes 100 columns,\n"
    "and a table that was asked for as many as it needs.\n"
    "\n"
    "Exit codes: 0 good, 1 verification failed, 2 bad flags or files, 3 nothing could run, a\n"
    "measurement is invalid or output was lost; of compare, gate and reproduce also 4 worse or\n"
    "other than the baseline, of compare and merge 5 ambiguous.";

std::string version_text() {
  const BuildInfo& build = build_info();
  return fmt::format("attnlab {}\ncommit    {}\ncompiler  {}\nflags     {}", build.version,
                     build.commit, build.compiler, build.flags);
}

// Counts the words of the command line that are attnlab's: all but those behind "--" of attnlab
// profile, which the parser would take for its points.
std::ptrdiff_t own_words(std::span<const char* const> words) {
  const bool is_split = words.size() > 1 && std::string_view(words[1]) == "profile";
  const auto dashes = std::ranges::find(words, std::string_view("--"),
                                        [](const char* word) { return std::string_view(word); });
  return (is_split ? dashes : words.end()) - words.begin();
}

CommandLine join_command_line(int argc, const char* const* argv) {
  CommandLine line;
  for (int i = 0; i < argc; ++i) {
    const char* const blank = i > 0 ? " " : "";
    line.typed += blank + shell_word(argv[i]);
    line.recorded += blank + portable_word(argv[i]);
  }
  const std::span words(argv, static_cast<std::size_t>(argc));
  line.behind_dashes.assign(words.begin() + own_words(words), words.end());
  if (!line.behind_dashes.empty()) line.behind_dashes.erase(line.behind_dashes.begin());
  return line;
}

// Returns a complaint about an argument that no verb knows, with the nearest one; "" if none is.
std::string unknown_argument(const CLI::App& app, const std::vector<Verb>& verbs) {
  const auto complain = [](const std::string& what, const std::string& word,
                           const std::vector<std::string>& known) {
    return fmt::format("{} '{}'{}", what, word, suggestion(word, known));
  };
  const CLI::App* command = &app;
  std::vector<std::string> verb_names;
  for (const Verb& verb : verbs) {
    const bool is_hidden = verb.command->get_group().empty();
    if (!is_hidden) verb_names.push_back(verb.command->get_name());
    if (verb.command->parsed()) command = verb.command;
  }
  std::vector<std::string> flags;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const std::string& word : command->remaining()) {
    if (word.starts_with("-")) {
      return complain("unknown flag", word.substr(0, word.find('=')), flags);
    }
    if (command == &app) return complain("unknown verb", word, verb_names);
  }
  const std::vector<std::string> rest = command->remaining();
  return rest.empty() ? "" : fmt::format("'{}' is one argument too many", rest.front());
}

std::string explain(const CLI::ParseError& error, const CLI::App& app,
                    const std::vector<Verb>& verbs) {
  const std::string unknown = unknown_argument(app, verbs);
  if (!unknown.empty()) return unknown;
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) == nullptr) return text;
  const std::size_t name_end = text.find(':');  // "--seqlen: 1 required TYPE missing"
  return name_end == std::string::npos ? text : text.substr(0, name_end) + " needs one value";
}

int fail_usage(const std::string& why, const CLI::App* command) {
  const std::string name = command == nullptr ? "" : " " + command->get_name();
  print_to(stderr, "attnlab{}: {}\nTry: attnlab{} --help\n", name, why, name);
  return kExitUsage;
}

int run_verb(const Verb& verb) {
  try {
    return verb.run();
  } catch (const UsageError& error) {
    print_to(stderr, "attnlab {}: {}\n", verb.command->get_name(), error.what());
    return kExitUsage;
  } catch (const std::bad_alloc&) {
    print_to(stderr, "attnlab {}: out of memory\n", verb.command->get_name());
    return kExitEnvironment;
  } catch (const std::exception& error) {
    print_to(stderr, "attnlab {}: {}\n", verb.command->get_name(), error.what());
    return kExitEnvironment;
  }
}

// Returns the verb on the command line, null if there is none.
const Verb* find_parsed(const std::vector<Verb>& verbs) {
  const auto found =
      std::ranges::find_if(verbs, [](const Verb& verb) { return verb.command->parsed(); });
  return found == verbs.end() ? nullptr : &*found;
}

int parse_and_run(CLI::App& app, const std::vector<Verb>& verbs, int argc,
                  const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
    return kExitGood;
  } catch (const CLI::ParseError& error) {
    const Verb* const verb = find_parsed(verbs);
    return fail_usage(explain(error, app, verbs), verb == nullptr ? nullptr : verb->command);
  }
  if (const Verb* const verb = find_parsed(verbs)) return run_verb(*verb);
  print_to(stderr, "{}", app.help());
  return kExitUsage;
}

// Returns the exit code, which changes if some of what was printed could not be written.
int finish_output(const Verb* verb, int code) {
  const std::string lost = flush_standard_output();
  if (lost.empty()) return code;
  const std::string name = verb == nullptr ? "" : " " + verb->command->get_name();
  print_to(stderr, "attnlab{}: cannot write to standard output: {}{}\n", name, lost,
           verb == nullptr ? "" : verb->kept());
  return code == kExitGood ? kExitEnvironment : code;
}

}  // namespace

int run_command_line(int argc, const char* const* argv) {
  set_page_width(columns_of(stdout));
  CLI::App app{kDescription, "attnlab"};
  app.formatter(help_formatter());
  app.set_help_flag("-h,--help", "Print this help");
  app.set_version_flag("--version", version_text(), "Print version, commit, compiler and flags");
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  const CommandLine command_line = join_command_line(argc, argv);
  const std::vector<Verb> verbs = {add_calibrate_verb(app),
                                   add_compare_verb(app),
                                   add_compile_verb(app),
                                   add_completion_verb(app),
                                   add_doctor_verb(app),
                                   add_explain_verb(app),
                                   add_gate_verb(app),
                                   add_list_verb(app),
                                   add_man_verb(app),
                                   add_merge_verb(app),
                                   add_model_verb(app),
                                   add_peak_verb(app),
                                   add_profile_verb(app, command_line),
                                   add_report_verb(app),
                                   add_reproduce_verb(app),
                                   add_run_verb(app, command_line),
                                   add_sass_verb(app),
                                   add_table_verb(app),
                                   add_verify_verb(app),
                                   add_compile_worker_verb(app)};
  for (const Verb& verb : verbs) {
    refuse_empty_values(*verb.command);
    if (!verb.command->get_group().empty()) verb.command->group("Verbs");
  }
  const auto own = own_words({argv, static_cast<std::size_t>(argc)});
  const int code = parse_and_run(app, verbs, static_cast<int>(own), argv);
  return finish_output(find_parsed(verbs), code);
}

}  // namespace attnlab
