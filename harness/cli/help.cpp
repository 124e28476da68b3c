#include "harness/cli/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/base/text_table.h"

namespace attnlab {
namespace {

// Returns "  --flag NAME      what it does", on two lines if the flag is too long for its column.
std::string entry(const std::string& name, const std::string& text) {
  const std::size_t column = prose_width() * 36 / 100;
  std::string head = "  " + name;
  if (head.size() + 2 <= column) {
    head.resize(column, ' ');
    return wrap(head + text, column);
  }
  return head + "\n" + wrap(std::string(column, ' ') + text, column);
}

// Lays out a command, or "  name   what it is".
std::string indented(const std::string& line) {
  constexpr std::size_t kOfContinuedCommand = 6;
  const std::size_t begin = line.find_first_not_of(' ');
  const std::size_t gap = line.find("  ", begin);
  if (gap != std::string::npos) return wrap(line, line.find_first_not_of(' ', gap));
  if (line.size() <= prose_width()) return line + "\n";
  std::string text = wrap(line, kOfContinuedCommand, prose_width() - 2);
  for (std::size_t end = text.find('\n'); end + 1 < text.size(); end = text.find('\n', end + 3)) {
    text.insert(end, " \\");
  }
  return text;
}

std::string laid_out(const std::string& help) {
  std::string text;
  for (const HelpBlock& block : help_blocks(help)) {
    switch (block.kind) {
      case HelpBlock::Kind::paragraph: text += wrap(block.text); break;
      case HelpBlock::Kind::line: text += indented(block.text); break;
      case HelpBlock::Kind::gap: text += '\n'; break;
    }
  }
  return text;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return entry(make_option_name(option, is_positional) + make_option_opts(option),
                 make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return entry(verb->get_name(), verb->get_description());
  }
  std::string make_description(const CLI::App* app) const override {
    return laid_out(app->get_description());
  }
  std::string make_footer(const CLI::App* app) const override {
    return laid_out(app->get_footer());
  }
};

}  // namespace

std::vector<HelpBlock> help_blocks(const std::string& text) {
  using Kind = HelpBlock::Kind;
  std::vector<HelpBlock> blocks;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const Kind kind = line.empty() ? Kind::gap : line[0] == ' ' ? Kind::line : Kind::paragraph;
    if (kind == Kind::paragraph && !blocks.empty() && blocks.back().kind == kind) {
      blocks.back().text += " " + line;
    } else {
      blocks.push_back({kind, line});
    }
  }
  return blocks;
}

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("SUBCOMMAND", "VERB");
  return formatter;
}

}  // namespace attnlab
