// How help texts are laid out: within the page, whatever its width.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

namespace attnlab {

// A piece of a verb's help: a paragraph, which is filled, or a line that is not ("  attnlab list").
struct HelpBlock {
  enum class Kind { paragraph, line, gap };
  Kind kind = Kind::gap;
  std::string text;
};

// Lines that begin with a space stand alone, the others of a paragraph are joined.
std::vector<HelpBlock> help_blocks(const std::string& text);

// The page's width, hanging indents, commands that are broken as a shell reads them again.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace attnlab
