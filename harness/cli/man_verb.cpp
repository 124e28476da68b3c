// Implements attnlab man, which makes the manual page of the help texts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "harness/base/build_info.h"
#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/cli/command_tree.h"
#include "harness/cli/help.h"
#include "harness/cli/verbs.h"

namespace attnlab {
namespace {

constexpr const char* kFooter =
    R"(Prints attnlab(1), made of the help texts of this very program; cmake --install puts it where man
looks.

Examples:
  attnlab man > attnlab.1
  attnlab man | man -l -

Exit codes: 0 good.)";

// Escapes text so that troff prints it as it is.
std::string plain(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

// Quotes text so that a macro takes it as one argument.
std::string argument(const std::string& text) {
  std::string result;
  for (const char c : plain(text)) result += c == '"' ? std::string("\\(dq") : std::string(1, c);
  return '"' + result + '"';
}

std::string entry(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n.B {}\n{}\n", argument(name), plain(text));
}

// Turns help into man macros: a line with a gap of two spaces becomes an entry with a tag.
std::string paragraphs(const std::string& text) {
  using Kind = HelpBlock::Kind;
  std::string page;
  bool is_literal = false;
  const auto set_literal = [&](bool wanted) {
    if (wanted != is_literal) page += wanted ? ".PP\n.nf\n" : ".fi\n";
    is_literal = wanted;
  };
  for (const HelpBlock& block : help_blocks(text)) {
    const std::size_t begin = block.text.find_first_not_of(' ');
    const std::size_t gap = block.text.find("  ", begin);
    const bool is_entry = block.kind == Kind::line && gap != std::string::npos;
    set_literal(block.kind == Kind::line && !is_entry);
    if (is_entry) {
      page += entry(block.text.substr(begin, gap - begin),
                    block.text.substr(block.text.find_first_not_of(' ', gap)));
    } else if (block.kind == Kind::line) {
      page += plain(block.text) + "\n";
    } else if (block.kind == Kind::paragraph) {
      page += ".PP\n" + plain(block.text) + "\n";
    }
  }
  set_literal(false);
  return page;
}

std::string flags(const CLI::App& verb) {
  std::string page;
  for (const CLI::Option* flag : visible_flags(verb)) {
    const bool takes_value = values_of(*flag).kind != FlagValues::Kind::none;
    page += entry(flag->get_name(false, true) + (takes_value ? " " + flag->get_type_name() : ""),
                  flag->get_description());
  }
  return page;
}

std::string page_of_verb(const CLI::App& verb) {
  const CLI::Option* const positional = positional_of(verb);
  std::string usage = "attnlab " + verb.get_name() + " [OPTIONS]";
  if (positional != nullptr) usage += " [" + positional->get_type_name() + "]";
  std::string page = ".SS " + argument(usage) + "\n" + plain(verb.get_description()) + ".\n";
  if (positional != nullptr) {
    page += entry(positional->get_type_name(), positional->get_description());
  }
  return page + flags(verb) + paragraphs(verb.get_footer());
}

std::string manual_page(const CLI::App& app) {
  std::string page = fmt::format(
      ".TH ATTNLAB 1 \"\" \"attnlab {}\" \"User Commands\"\n"
      ".SH NAME\nattnlab \\- a laboratory for attention kernels\n"
      ".SH SYNOPSIS\n.B attnlab\n.I VERB\n[OPTIONS]\n.SH DESCRIPTION\n",
      build_info().version);
  page += paragraphs(app.get_description()) + ".SH OPTIONS\n" + flags(app) + ".SH VERBS\n";
  for (const CLI::App* verb : visible_verbs(app)) page += page_of_verb(*verb);
  return page + ".SH NOTES\n" + paragraphs(app.get_footer());
}

}  // namespace

Verb add_man_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("man", "Print the manual page, for man to show");
  command->footer(kFooter);
  return {command, [&app] {
            print_to(stdout, "{}", manual_page(app));
            return kExitGood;
          }};
}

}  // namespace attnlab
