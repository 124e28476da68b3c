#include "kernels/cuda/compile_log.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "kernels/api/text.h"

namespace attnlab::cuda {
namespace {

// Returns the text between two words; empty if they are not there.
std::string_view between(std::string_view line, std::string_view before, std::string_view after) {
  const std::size_t at = line.find(before);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + before.size());
  const std::size_t end = line.find(after);
  return end == std::string_view::npos ? std::string_view{} : line.substr(0, end);
}

// Returns the number before a word, as in "6472 bytes stack frame"; 0 if it is not there.
std::int64_t number_before(std::string_view line, std::string_view word) {
  const std::size_t end = line.find(word);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1])) != 0) --begin;
  return std::strtoll(std::string(line.substr(begin, end - begin)).c_str(), nullptr, 10);
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Returns "C7519: ..." for "ptxas info    : (C7519) ...", warnings as they stand, else "".
std::string advisory(std::string_view line) {
  if (line.starts_with("ptxas")) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) return "";
    const std::string_view text = trimmed(line.substr(colon + 2));
    if (text.starts_with("(C")) {
      const std::string_view code = between(text, "(", ")");
      return std::string(code) + ": " + std::string(trimmed(text.substr(code.size() + 2)));
    }
    return trimmed(line.substr(0, colon)) == "ptxas warning" ? std::string(text) : "";
  }
  return line.find(": warning #") == std::string_view::npos ? "" : std::string(trimmed(line));
}

// Where two advisories are alike but for a line number, they say the same.
std::string without_line(const std::string& text) {
  const std::size_t at = text.find(" line ");
  if (at == std::string::npos) return text;
  std::size_t end = at + 6;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return text.substr(0, at) + text.substr(end);
}

class Advisories {
 public:
  void add(const std::string& text) {
    if (text.empty()) return;
    const std::string key = without_line(text);
    const auto same = std::find_if(all_.begin(), all_.end(),
                                   [&](const Counted& counted) { return counted.key == key; });
    if (same == all_.end()) {
      all_.push_back({key, text, 1});
    } else {
      ++same->count;
    }
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    for (const Counted& counted : all_) {
      const std::string count = std::to_string(counted.count);
      texts.push_back(counted.count == 1 ? counted.text : counted.text + " (" + count + " times)");
    }
    return texts;
  }

 private:
  struct Counted {
    std::string key;
    std::string text;  // of the first
    int count = 0;
  };
  std::vector<Counted> all_;
};

}  // namespace

CompileLog parse_compile_log(std::string_view log) {
  CompileLog parsed;
  Advisories advisories;
  std::string_view entry;
  for (const std::string_view line : split(log, '\n')) {
    if (const auto name = between(line, "Compiling entry function '", "'"); !name.empty()) {
      entry = name;
    }
    constexpr std::string_view kFunction = "Function properties for ";
    if (const std::size_t at = line.find(kFunction); at != std::string_view::npos) {
      const std::string_view name = trimmed(line.substr(at + kFunction.size()));
      parsed.functions.push_back({.name = std::string(name), .is_entry = name == entry});
    }
    if (!parsed.functions.empty() && line.starts_with("ptxas")) {
      FunctionFacts& facts = parsed.functions.back();
      if (line.find(" bytes spill stores") != std::string_view::npos) {
        facts.stack_bytes = number_before(line, " bytes stack frame");
        facts.spill_store_bytes = number_before(line, " bytes spill stores");
        facts.spill_load_bytes = number_before(line, " bytes spill loads");
      } else if (line.find(": Used ") != std::string_view::npos) {
        facts.registers = static_cast<int>(number_before(line, " registers"));
        facts.static_shared_bytes = number_before(line, " bytes smem");
      }
    }
    advisories.add(advisory(line));
  }
  parsed.advisories = advisories.texts();
  return parsed;
}

std::string impurities(const CompileLog& log) {
  constexpr std::array<std::string_view, 6> kCodes = {"C7508", "C7510", "C7511",
                                                      "C7515", "C7517", "C7519"};
  std::string text;
  for (const FunctionFacts& facts : log.functions) {
    if (facts.spill_store_bytes == 0 && facts.spill_load_bytes == 0) continue;
    text += facts.name + ": registers spill: " + std::to_string(facts.spill_store_bytes) +
            " bytes stored, " + std::to_string(facts.spill_load_bytes) + " bytes loaded\n";
  }
  for (const std::string& line : log.advisories) {
    const bool counts = std::any_of(kCodes.begin(), kCodes.end(),
                                    [&](std::string_view code) { return line.starts_with(code); });
    if (counts) text += line + "\n";
  }
  return text;
}

}  // namespace attnlab::cuda
