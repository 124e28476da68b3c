#include "harness/report/sass.h"

#include <charconv>
#include <optional>

#include "harness/plan/axis_values.h"
#include "kernels/api/text.h"

namespace attnlab {
namespace {

// Takes what stands before `end` off the text, with `end`; nothing where there is no `end`.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const std::size_t found = text.find(end);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, found);
  text.remove_prefix(found + end.size());
  return taken;
}

// Cuts off the folder in which the compiler ran: it puts that before the names it was given.
std::string path_in_tree(std::string_view file) {
  const std::size_t tree = file.rfind("/kernels/");
  const std::size_t begin = tree != std::string_view::npos ? tree : file.rfind('/');
  return std::string(begin == std::string_view::npos ? file : file.substr(begin + 1));
}

// Reads `//## File "PATH", line N inlined at "PATH", line N`. Takes the first of the two places:
// the line below begins with the second.
std::optional<SourcePlace> parse_place(std::string_view line) {
  if (!take_until(line, "//## File \"")) return std::nullopt;
  const std::optional<std::string_view> file = take_until(line, "\", line ");
  if (!file) return std::nullopt;
  SourcePlace place{.file = path_in_tree(*file)};
  std::from_chars(line.data(), line.data() + line.size(), place.line);
  return place;
}

// Reads "/*21c0*/   @P0 HGMMA... R24, ... ;".
std::optional<SassInstruction> parse_instruction(std::string_view line) {
  line = trim(line);
  if (!line.starts_with("/*")) return std::nullopt;
  line.remove_prefix(2);
  const std::optional<std::string_view> address = take_until(line, "*/");
  const std::optional<std::string_view> text = take_until(line, ";");
  if (!address || !text) return std::nullopt;
  return SassInstruction{.address = std::string(*address), .text = std::string(trim(*text))};
}

// Reads `.section .text.NAME,"ax",@progbits`.
std::optional<std::string> parse_section(std::string_view line) {
  if (!trim(line).starts_with(".section") || !take_until(line, ".text.")) return std::nullopt;
  return std::string(line.substr(0, line.find(',')));
}

// Reads ".L_x_1:".
std::optional<std::string> parse_label(std::string_view line) {
  line = trim(line);
  if (!line.starts_with(".L_x_") || !line.ends_with(':')) return std::nullopt;
  return std::string(line.substr(0, line.size() - 1));
}

// Takes the predicate off.
std::string_view body_of(const SassInstruction& instruction) {
  std::string_view text = instruction.text;
  if (text.starts_with('@')) take_until(text, " ");
  return trim(text);
}

}  // namespace

std::vector<SassKernel> parse_sass(std::string_view text) {
  std::vector<SassKernel> kernels;
  std::vector<SourcePlace> places;
  bool places_are_used = false;  // by an instruction: the next place begins anew
  for (const std::string_view line : split(text, '\n')) {
    if (std::optional<std::string> name = parse_section(line)) {
      kernels.push_back({.name = std::move(*name)});
      places.clear();
    } else if (std::optional<SourcePlace> place = parse_place(line)) {
      if (places_are_used) places.clear();
      places_are_used = false;
      places.push_back(std::move(*place));
    } else if (std::optional<SassInstruction> instruction = parse_instruction(line)) {
      if (kernels.empty()) continue;
      instruction->places = places;
      places_are_used = true;
      kernels.back().instructions.push_back(std::move(*instruction));
    } else if (std::optional<std::string> label = parse_label(line); label && !kernels.empty()) {
      SassKernel& kernel = kernels.back();
      kernel.labels.emplace(std::move(*label), kernel.instructions.size());
    }
  }
  return kernels;
}

std::string_view opcode_of(const SassInstruction& instruction) {
  const std::string_view body = body_of(instruction);
  return body.substr(0, body.find(' '));
}

std::string_view operation_of(const SassInstruction& instruction) {
  const std::string_view opcode = opcode_of(instruction);
  return opcode.substr(0, opcode.find('.'));
}

std::string_view operands_of(const SassInstruction& instruction) {
  return trim(body_of(instruction).substr(opcode_of(instruction).size()));
}

}  // namespace attnlab
