// Implements attnlab completion: prints what shells complete, read from the tree of verbs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/suggest.h"
#include "harness/cli/command_tree.h"
#include "harness/cli/verbs.h"

namespace attnlab {
namespace {

using Kind = FlagValues::Kind;

constexpr const char* kFooter =
    R"(Prints a script for a shell, made of the verbs and flags of this very program; cmake --install
puts them where shells look.

Examples:
  attnlab completion bash > ~/.local/share/bash-completion/completions/attnlab
  attnlab completion zsh > ~/.zsh/completions/_attnlab
  attnlab completion fish > ~/.config/fish/completions/attnlab.fish

Exit codes: 0 good, 2 there is no script for this shell.)";

// Returns the text with a backslash before each of `characters`.
std::string escaped(const std::string& text, const std::string& characters) {
  std::string result;
  for (const char c : text) {
    if (characters.find(c) != std::string::npos) result += '\\';
    result += c;
  }
  return result;
}

// Puts text in quotes for bash and zsh.
std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string words(const FlagValues& values) {
  return fmt::format("{}", fmt::join(values.words, " "));
}

std::string flags_of(const CLI::App& verb) {
  std::string text;
  for (const CLI::Option* flag : visible_flags(verb)) {
    text += (text.empty() ? "" : " ") + long_name(*flag);
  }
  return text;
}

// Returns the bash statement that completes the value of a flag.
std::string bash_action(const FlagValues& values) {
  switch (values.kind) {
    case Kind::files: return "compopt -o default 2>/dev/null; return";
    case Kind::folders: return "compopt -o dirnames 2>/dev/null; return";
    case Kind::words:
      return fmt::format("words={} list={}", in_quotes(words(values)),
                         values.is_list ? "yes" : "''");
    case Kind::some:
    case Kind::none: break;
  }
  return "return";
}

constexpr const char* kBashHead = R"(# bash completion of attnlab; made by: attnlab completion bash
_attnlab() {
  local line=${COMP_LINE:0:COMP_POINT} verb='' flag='' words='' list='' before='' broken=''
  local -a typed
  read -ra typed <<<"$line"
  [[ $line == *[[:space:]] ]] && typed+=('')
  local word=${typed[-1]}
  if ((${#typed[@]} > 2)); then
    verb=${typed[1]} flag=${typed[-2]}
  fi
  if [[ $word == --*=* ]]; then
    flag=${word%%=*} word=${word#*=}
  fi
  COMPREPLY=()
)";

// In a list only the words behind the last comma are matched; and readline replaces only what is
// typed behind a colon, so `broken` is cut off the answers.
constexpr const char* kBashTail = R"(  if [[ $list && $word == *,* ]]; then
    before=${word%,*},
  fi
  [[ $COMP_WORDBREAKS == *:* ]] && broken=${word%"${word##*:}"}
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$words" -- "${word#"$before"}")
  COMPREPLY=("${COMPREPLY[@]#"$broken"}")
  [[ ${COMPREPLY[0]-} == *: ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _attnlab attnlab
)";

std::string zsh_action(const FlagValues& values) {
  switch (values.kind) {
    case Kind::files: return "_files";
    case Kind::folders: return "_files -/";
    case Kind::words:
      if (values.is_list) {
        return fmt::format("_sequence compadd - {}", escaped(words(values), ":"));
      }
      return fmt::format("({})", words(values));
    case Kind::some:
    case Kind::none: break;
  }
  return " ";
}

std::string zsh_flag(const CLI::Option& flag) {
  const FlagValues values = values_of(flag);
  const std::string what = escaped(flag.get_description(), "[]:\\");
  if (values.kind == Kind::none) return in_quotes(fmt::format("{}[{}]", long_name(flag), what));
  return in_quotes(fmt::format("{}=[{}]:{}:{}", long_name(flag), what,
                               escaped(flag.get_type_name(), ":\\"), zsh_action(values)));
}

std::string zsh_arguments(const CLI::App& verb) {
  std::string text = "_arguments";
  for (const CLI::Option* flag : visible_flags(verb)) text += " \\\n          " + zsh_flag(*flag);
  if (const CLI::Option* positional = positional_of(verb)) {
    text += " \\\n          " + in_quotes(fmt::format("*:{}:{}", positional->get_type_name(),
                                                      zsh_action(values_of(*positional))));
  }
  return text;
}

std::string fish_action(const FlagValues& values) {
  switch (values.kind) {
    case Kind::none: return "";
    case Kind::files: return " -r -F";
    case Kind::folders: return " -x -a '(__fish_complete_directories)'";
    case Kind::some: return " -x";
    case Kind::words: break;
  }
  if (values.is_list) return fmt::format(" -x -a '(__fish_append , {})'", words(values));
  return fmt::format(" -x -a '{}'", words(values));
}

// Returns a script that completes verbs, flags, files, and values where there are few.
std::string bash_completion(const CLI::App& app) {
  std::string verbs = flags_of(app);
  std::string flags, values;
  for (const CLI::App* verb : visible_verbs(app)) {
    const std::string name = verb->get_name();
    verbs += " " + name;
    const CLI::Option* const positional = positional_of(*verb);
    if (positional != nullptr) {
      flags += fmt::format("    {}) [[ $word == -* ]] && words={} ||\n      {{ {}; }} ;;\n", name,
                           in_quotes(flags_of(*verb)), bash_action(values_of(*positional)));
    } else {
      flags += fmt::format("    {}) words={} ;;\n", name, in_quotes(flags_of(*verb)));
    }
    for (const CLI::Option* flag : visible_flags(*verb)) {
      const FlagValues given = values_of(*flag);
      if (given.kind == Kind::none) continue;
      values += fmt::format("    '{} {}') {} ;;\n", name, long_name(*flag), bash_action(given));
    }
  }
  return fmt::format(
      "{}  case \"$verb $flag\" in\n{}    *) case $verb in\n    '') words={} ;;\n{}"
      "    esac ;;\n  esac\n{}",
      kBashHead, values, in_quotes(verbs), flags, kBashTail);
}

std::string zsh_completion(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : visible_verbs(app)) {
    verbs += fmt::format(
        "    {}\n",
        in_quotes(fmt::format("{}:{}", verb->get_name(), escaped(verb->get_description(), ":\\"))));
    cases += fmt::format("      {})\n        {} ;;\n", verb->get_name(), zsh_arguments(*verb));
  }
  std::string flags;
  for (const CLI::Option* flag : visible_flags(app)) flags += zsh_flag(*flag) + " ";
  return fmt::format(R"(#compdef attnlab
# zsh completion of attnlab; made by: attnlab completion zsh
_attnlab() {{
  local curcontext=$curcontext state line
  local -a verbs=(
{}  )
  _arguments -C {}'1:verb:->verb' '*::argument:->argument'
  case $state in
    verb) _describe verb verbs ;;
    argument) case $line[1] in
{}    esac ;;
  esac
}}
if [[ $funcstack[1] == _attnlab ]]; then
  _attnlab "$@"
else
  compdef _attnlab attnlab
fi
)",
                     verbs, flags, cases);
}

std::string fish_completion(const CLI::App& app) {
  std::string text = "# fish completion of attnlab; made by: attnlab completion fish\n";
  const auto add = [&](const std::string& condition, const std::string& rest,
                       const std::string& what) {
    text += fmt::format("complete -c attnlab -n '{}'{} -d '{}'\n", condition, rest,
                        escaped(what, "'\\"));
  };
  for (const CLI::Option* flag : visible_flags(app)) {
    add("__fish_use_subcommand", fmt::format(" -l {}", flag->get_lnames().front()),
        flag->get_description());
  }
  for (const CLI::App* verb : visible_verbs(app)) {
    const std::string condition = "__fish_seen_subcommand_from " + verb->get_name();
    add("__fish_use_subcommand", " -f -a " + verb->get_name(), verb->get_description());
    if (const CLI::Option* positional = positional_of(*verb)) {
      const FlagValues values = values_of(*positional);
      if (values.kind == Kind::words) {
        add(condition, fmt::format(" -f -a '{}'", words(values)), positional->get_description());
      }
    }
    for (const CLI::Option* flag : visible_flags(*verb)) {
      add(condition,
          fmt::format(" -l {}{}", flag->get_lnames().front(), fish_action(values_of(*flag))),
          flag->get_description());
    }
  }
  return text;
}

int run(const CLI::App& app, const std::string& shell) {
  using Script = std::string (*)(const CLI::App&);
  const std::map<std::string, Script> scripts = {
      {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};
  const auto script = scripts.find(shell);
  if (script == scripts.end()) {
    throw UsageError(fmt::format("'{}' is none of bash, zsh, fish{}", shell,
                                 suggestion(shell, {"bash", "zsh", "fish"})));
  }
  print_to(stdout, "{}", script->second(app));
  return kExitGood;
}

}  // namespace

Verb add_completion_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("completion", "Print what bash, zsh or fish completes commands by");
  command->footer(kFooter);
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->type_name("SHELL");
  return {command, [&app, shell] { return run(app, *shell); }};
}

}  // namespace attnlab
