// Lays out help texts within the page, whatever its width.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>
#include <vector>

namespace attnlab {

// Holds a piece of a help: a paragraph, which is filled, or a line that is not ("  attnlab list").
struct HelpBlock {
  enum class Kind { paragraph, line, gap };
  Kind kind = Kind::gap;
  std::string text;
};

// Splits a text: lines that begin with a space stand alone, the others are joined to paragraphs.
std::vector<HelpBlock> help_blocks(const std::string& text);

// Formats to the page's width, with hanging indents; broken commands remain valid shell.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace attnlab
