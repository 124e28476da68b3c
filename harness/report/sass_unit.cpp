#include "harness/report/sass_unit.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/api/text.h"

namespace attnlab {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) {
    const std::size_t begin = std::min(line.find_first_not_of(" \t"), line.size());
    lines.emplace_back(line.substr(begin));
  }
  return lines;
}

// Returns "kernels/v3/" of a unit whose text includes "kernels/v3/forward.cuh" first.
std::string folder_of(const std::string& source) {
  const std::size_t begin = source.find("kernels/");
  const std::size_t end = source.find('"', std::min(begin, source.size()));
  if (begin == std::string::npos || end == std::string::npos) return "";
  const std::string file = source.substr(begin, end - begin);
  return file.substr(0, file.rfind('/') + 1);
}

bool has_form(const SassInstruction& instruction, const WarpgroupProduct& product) {
  const std::string shape = fmt::format(".64x{}x{}.", product.columns, product.depth);
  const std::string_view operands = operands_of(instruction);
  const std::size_t comma = operands.find(", ");
  const bool a_in_memory =
      comma != std::string_view::npos && operands.substr(comma + 2).starts_with("gdesc");
  return opcode_of(instruction).find(shape) != std::string_view::npos &&
         a_in_memory != product.a_in_registers;
}

}  // namespace

std::string title_of(const SassUnit& unit) {
  const std::string name = fmt::format("{} for {}", unit.unit.name, unit.compilation.arch);
  return unit.sources.empty() ? name : fmt::format("{} of {}", name, unit.sources);
}

SassText::SassText(const SassUnit& unit) : folder_(folder_of(unit.unit.source)) {
  for (const auto& [file, text] : unit.texts) lines_.emplace(file, lines_of(text));
  lines_.emplace(unit.unit.name + ".cu", lines_of(unit.unit.source));
}

SourcePlace SassText::own_place(const SassInstruction& instruction) const {
  const auto is_own = [&](const SourcePlace& place) {
    return !folder_.empty() && place.file.starts_with(folder_);
  };
  const auto own = std::ranges::find_if(instruction.places, is_own);
  if (own != instruction.places.end()) return *own;
  return instruction.places.empty() ? SourcePlace{} : instruction.places.back();
}

std::string SassText::line(const SourcePlace& place) const {
  const auto file = lines_.find(place.file);
  const auto index = static_cast<std::size_t>(place.line - 1);
  if (file == lines_.end() || place.line < 1 || index >= file->second.size()) return "";
  return file->second[index];
}

std::size_t SassText::lines_above_like(const SourcePlace& place) const {
  const auto file = lines_.find(place.file);
  if (file == lines_.end() || place.line < 1) return 0;
  const auto end = std::min(static_cast<std::size_t>(place.line - 1), file->second.size());
  return static_cast<std::size_t>(std::count(
      file->second.begin(), file->second.begin() + static_cast<std::ptrdiff_t>(end), line(place)));
}

std::vector<SassLine> SassText::count_lines(const SassKernel& kernel) const {
  std::map<std::pair<std::string, int>, SassLine> lines;
  for (const SassInstruction& instruction : kernel.instructions) {
    const SourcePlace place = own_place(instruction);
    SassLine& line = lines[{place.file, place.line}];
    line.place = place;
    ++line.kinds[static_cast<std::size_t>(kind_of(operation_of(instruction)))];
    ++line.all;
  }
  std::vector<SassLine> sorted;
  for (auto& [where, line_counts] : lines) {
    line_counts.text = line(line_counts.place);
    line_counts.same_text = lines_above_like(line_counts.place);
    sorted.push_back(std::move(line_counts));
  }
  return sorted;
}

std::size_t ProductCheck::scheduled() const {
  return static_cast<std::size_t>(product.steps) * static_cast<std::size_t>(product.places);
}

bool ProductCheck::is_whole() const { return found % static_cast<std::size_t>(product.steps) == 0; }

bool ProductChecks::are_complete() const {
  const auto is_complete = [](const ProductCheck& check) { return check.is_complete(); };
  return products.empty() || (strangers == 0 && std::ranges::all_of(products, is_complete));
}

ProductChecks check_products(const SassKernel& kernel,
                             const std::vector<WarpgroupProduct>& products) {
  ProductChecks checks;
  for (const WarpgroupProduct& product : products) checks.products.push_back({product});
  for (const SassInstruction& instruction : kernel.instructions) {
    if (kind_of(operation_of(instruction)) != SassKind::wgmma) continue;
    // Products of one form share its wgmmas in turn; the first gets what is more than all lack.
    const auto lacks = [&](const ProductCheck& candidate) {
      return has_form(instruction, candidate.product) && candidate.found < candidate.scheduled();
    };
    const auto fits = [&](const ProductCheck& candidate) {
      return has_form(instruction, candidate.product);
    };
    auto check = std::ranges::find_if(checks.products, lacks);
    if (check == checks.products.end()) check = std::ranges::find_if(checks.products, fits);
    ++(check == checks.products.end() ? checks.strangers : check->found);
  }
  return checks;
}

std::vector<WarpgroupProduct> products_of(const SassUnit& unit, const std::string& kernel) {
  for (const KernelEntry& entry : unit.unit.entries) {
    if (entry.name == kernel) return entry.products;
  }
  return {};
}

bool has_complete_products(const SassUnit& unit) {
  return std::ranges::all_of(unit.kernels, [&](const SassKernel& kernel) {
    return check_products(kernel, products_of(unit, kernel.name)).are_complete();
  });
}

}  // namespace attnlab
