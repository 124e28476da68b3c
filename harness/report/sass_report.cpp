#include "harness/report/sass_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "harness/base/page.h"
#include "harness/report/sass_loops.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

std::string render(const TextTable& table, TableFormat format) {
  return format == TableFormat::markdown ? render_markdown(table) : render_plain(table);
}

// Says "FFMA 311, FADD 287, ...", the most frequent first.
std::string describe_most(const std::map<std::string, std::size_t>& counts, std::size_t shown = 4) {
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<std::string, std::size_t>::second);
  std::vector<std::string> words;
  for (const auto& [name, count] : std::span(sorted).first(std::min(sorted.size(), shown))) {
    words.push_back(fmt::format("{} {}", name, count));
  }
  if (sorted.size() > shown) words.emplace_back("...");
  return fmt::format("{}", fmt::join(words, ", "));
}

// Says "wgmma 8, integer 40".
std::string describe_kinds(const KindCounts& kinds, std::size_t shown = 4) {
  std::map<std::string, std::size_t> counts;
  for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
    if (kinds[kind] > 0) counts[name_of(static_cast<SassKind>(kind))] = kinds[kind];
  }
  return describe_most(counts, shown);
}

TextTable kinds_table(const SassCounts& counts) {
  TextTable table{.columns = {{"", "kind", true},
                              {"", "instructions", false},
                              {"", "%", false},
                              {"", "operations", true}},
                  .rows = {}};
  for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
    const std::size_t count = counts.kinds[kind];
    if (count == 0) continue;
    const double share = 100.0 * static_cast<double>(count) / static_cast<double>(counts.all);
    table.rows.push_back({{name_of(static_cast<SassKind>(kind))},
                          {fmt::format("{}", count)},
                          {fmt::format("{:.1f}", share)},
                          {describe_most(counts.operations[kind])}});
  }
  return table;
}

TextTable products_table(const ProductChecks& checks) {
  TextTable table{.columns = {{"", "product", true},
                              {"", "wgmma", true},
                              {"", "A in", true},
                              {"schedule", "a product", false},
                              {"schedule", "places", false},
                              {"schedule", "wgmmas", false},
                              {"SASS", "wgmmas", false}},
                  .rows = {}};
  for (const ProductCheck& check : checks.products) {
    table.rows.push_back({{check.product.name},
                          {fmt::format("64x{}x{}", check.product.columns, check.product.depth)},
                          {check.product.a_in_registers ? "registers" : "shared memory"},
                          {fmt::format("{}", check.product.steps)},
                          {fmt::format("{}", check.product.places)},
                          {fmt::format("{}", check.scheduled())},
                          {fmt::format("{}", check.found)}});
  }
  return table;
}

TextTable loops_table(const SassKernel& kernel, const std::vector<SassLoop>& loops) {
  TextTable table{.columns = {{"", "loop", true},
                              {"instructions", "all", false},
                              {"instructions", "wgmma, mma", false},
                              {"between steps", "all", false},
                              {"between steps", "kinds", true}},
                  .rows = {}};
  for (const SassLoop& loop : loops) {
    table.rows.push_back({{fmt::format("{} to {}", kernel.instructions[loop.begin].address,
                                       kernel.instructions[loop.end - 1].address)},
                          {fmt::format("{}", loop.all)},
                          {fmt::format("{}", loop.tensor_instructions)},
                          {fmt::format("{}", loop.between_steps.all)},
                          {describe_kinds(loop.between_steps.kinds, 3)}});
  }
  return table;
}

std::string describe(const SourcePlace& place) {
  return place.file.empty() ? "no line" : fmt::format("{}:{}", place.file, place.line);
}

TextTable lines_table(const std::vector<SassLine>& lines) {
  TextTable table{.columns = {{"", "line", true},
                              {"", "instructions", false},
                              {"", "kinds", true},
                              {"", "text", true}},
                  .rows = {}};
  for (const SassLine& line : lines) {
    table.rows.push_back({{describe(line.place)},
                          {fmt::format("{}", line.all)},
                          {describe_kinds(line.kinds)},
                          {shortened(line.text)}});
  }
  return table;
}

std::string without_end_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

// Prints instructions below the line of the kernel's text that they come from, each with its
// innermost place beside it where that is not the place of the line before.
std::string listing(const SassKernel& kernel, const SassText& text) {
  std::string lines, header, inner;
  for (const SassInstruction& instruction : kernel.instructions) {
    const SourcePlace own = text.own_place(instruction);
    const std::string own_words = describe(own);
    const std::size_t left = kPageWidth - std::min(own_words.size() + 2, kPageWidth / 2);
    const std::string next =
        without_end_blanks(fmt::format("{}  {}", own_words, shortened(text.line(own), left)));
    if (next != header) {
      lines += fmt::format("{}{}\n", lines.empty() ? "" : "\n", next);
      inner = own_words;
    }
    header = next;
    const std::string place =
        instruction.places.empty() ? own_words : describe(instruction.places.front());
    lines += without_end_blanks(fmt::format("  {:>5}  {:<50}  {}", instruction.address,
                                            instruction.text, place == inner ? "" : place));
    lines += '\n';
    inner = place;
  }
  return lines;
}

std::string resources(const SassUnit& unit, const std::string& kernel) {
  for (const CompiledEntry& entry : unit.compilation.entries) {
    if (entry.entry.name != kernel) continue;
    const std::int64_t spilled = entry.spill_store_bytes + entry.spill_load_bytes;
    return fmt::format(", {} registers, {}", entry.registers,
                       spilled == 0 ? "no spills" : fmt::format("{} B of spills", spilled));
  }
  return "";
}

std::string render_kernel(const SassUnit& unit, const SassText& text, const SassKernel& kernel,
                          const SassView& view, TableFormat format) {
  const SassCounts counts = count_kinds(kernel);
  const ProductChecks checks = check_products(kernel, products_of(unit, kernel.name));
  std::string words;
  if (view.listing) {
    const char* const fence = format == TableFormat::markdown ? "```\n" : "";
    words += fmt::format("{}{}{}\n", fence, listing(kernel, text), fence);
  }
  if (view.by_line) words += render(lines_table(text.count_lines(kernel)), format) + "\n";
  words += wrap(fmt::format("{}: {}{}", kernel.name, count_of(counts.all, "instruction"),
                            resources(unit, kernel.name)));
  words += fmt::format("\n{}", render(kinds_table(counts), format));
  if (!checks.products.empty()) {
    words += fmt::format("\n{}", render(products_table(checks), format));
  }
  const std::vector<SassLoop> loops = product_loops(kernel);
  if (!loops.empty()) words += fmt::format("\n{}", render(loops_table(kernel, loops), format));
  const std::string remarks = describe_products(checks, counts);
  if (remarks.empty()) return words;
  const std::string how = checks.products.empty() ? "" : fmt::format(" {}", kHowCompared);
  return fmt::format("{}\n{}", words, wrap(remarks + how));
}

Json kinds_json(const KindCounts& kinds) {
  Json object = Json::object();
  for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
    object[name_of(static_cast<SassKind>(kind))] = kinds[kind];
  }
  return object;
}

Json place_json(const SourcePlace& place) { return {{"file", place.file}, {"line", place.line}}; }

Json loops_json(const SassKernel& kernel) {
  Json loops = Json::array();
  for (const SassLoop& loop : product_loops(kernel)) {
    Json operations = Json::object();
    for (const auto& of_kind : loop.between_steps.operations) {
      for (const auto& [operation, count] : of_kind) operations[operation] = count;
    }
    loops.push_back({{"begin", kernel.instructions[loop.begin].address},
                     {"end", kernel.instructions[loop.end - 1].address},
                     {"instructions", loop.all},
                     {"tensor_instructions", loop.tensor_instructions},
                     {"between_steps",
                      {{"instructions", loop.between_steps.all},
                       {"kinds", kinds_json(loop.between_steps.kinds)},
                       {"operations", operations}}}});
  }
  return loops;
}

Json kernel_json(const SassUnit& unit, const SassText& text, const SassKernel& kernel) {
  const SassCounts counts = count_kinds(kernel);
  Json lines = Json::array();
  for (const SassLine& line : text.count_lines(kernel)) {
    lines.push_back({{"file", line.place.file},
                     {"line", line.place.line},
                     {"text", line.text},
                     {"instructions", line.all},
                     {"kinds", kinds_json(line.kinds)}});
  }
  Json sass = Json::array();
  for (const SassInstruction& instruction : kernel.instructions) {
    Json places = Json::array();
    for (const SourcePlace& place : instruction.places) places.push_back(place_json(place));
    sass.push_back({{"address", instruction.address},
                    {"text", instruction.text},
                    {"kind", name_of(kind_of(operation_of(instruction)))},
                    {"places", places}});
  }
  return {{"kernel", kernel.name},
          {"instructions", counts.all},
          {"kinds", kinds_json(counts.kinds)},
          {"products", products_json(check_products(kernel, products_of(unit, kernel.name)))},
          {"loops", loops_json(kernel)},
          {"lines", lines},
          {"sass", sass}};
}

std::string render_json(const SassUnit& unit) {
  const SassText text(unit);
  Json kernels = Json::array();
  for (const SassKernel& kernel : unit.kernels) kernels.push_back(kernel_json(unit, text, kernel));
  Json all = {{"schema", kSassSchema}};
  all.update(identity_json(unit));
  all["kernels"] = kernels;
  return all.dump(1) + "\n";
}

std::string render_lines_csv(const SassUnit& unit) {
  const SassText text(unit);
  TextTable table;
  for (const char* title : {"unit", "arch", "kernel", "file", "line", "kind", "instructions"}) {
    table.columns.push_back({.title = title});
  }
  for (const SassKernel& kernel : unit.kernels) {
    for (const SassLine& line : text.count_lines(kernel)) {
      for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
        if (line.kinds[kind] == 0) continue;
        table.rows.push_back({{unit.unit.name},
                              {unit.compilation.arch},
                              {kernel.name},
                              {line.place.file},
                              {fmt::format("{}", line.place.line)},
                              {name_of(static_cast<SassKind>(kind))},
                              {fmt::format("{}", line.kinds[kind])}});
      }
    }
  }
  return render_csv(table);
}

// Says what is wrong with the wgmmas of one product; "" where they are those of the schedule.
std::string describe(const ProductCheck& check) {
  if (check.is_scheduled()) return "";
  const std::string head =
      fmt::format("{}: {} in the SASS", check.product.name, count_of(check.found, "wgmma"));
  const auto steps = static_cast<std::size_t>(check.product.steps);
  if (!check.is_whole()) {
    return fmt::format(
        "{} do not make whole products of {}: the kernel does not multiply what its "
        "schedule says.",
        head, steps);
  }
  return fmt::format("{} are {} of {}, where the schedule's text has {}: {}.", head,
                     count_of(check.found / steps, "product"), steps,
                     count_of(static_cast<std::size_t>(check.product.places), "place"),
                     check.is_complete()
                         ? "the compiler copied code, or the text starts more products"
                         : "products are missing, or the compiler merged code");
}

}  // namespace

std::string describe_products(const ProductChecks& checks, const SassCounts& counts) {
  const std::size_t wgmmas = counts[SassKind::wgmma];
  if (checks.products.empty()) {
    if (wgmmas + counts[SassKind::mma] == 0) return "";
    return "The unit does not say which products its schedule has: these are counts alone.";
  }
  std::vector<std::string> sentences;
  for (const ProductCheck& check : checks.products) {
    const std::string words = describe(check);
    if (!words.empty()) sentences.push_back(words);
  }
  if (checks.strangers > 0) {
    sentences.push_back(fmt::format(
        "{} no form of a product of the schedule.",
        checks.strangers == 1 ? "1 wgmma has" : fmt::format("{} wgmmas have", checks.strangers)));
  }
  if (sentences.empty()) sentences.emplace_back("The wgmmas are those of the schedule.");
  return fmt::format("{}", fmt::join(sentences, " "));
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

Json identity_json(const SassUnit& unit) {
  return {{"unit", unit.unit.name},
          {"arch", unit.compilation.arch},
          {"compiler", unit.compilation.compiler},
          {"kernel_sources", unit.sources},
          {"text_sha256", unit.compilation.text_sha256},
          {"error", unit.compilation.error}};
}

Json products_json(const ProductChecks& checks) {
  Json products = Json::array();
  for (const ProductCheck& check : checks.products) {
    products.push_back({{"product", check.product.name},
                        {"columns", check.product.columns},
                        {"depth", check.product.depth},
                        {"a_in_registers", check.product.a_in_registers},
                        {"wgmmas_a_product", check.product.steps},
                        {"places", check.product.places},
                        {"scheduled", check.scheduled()},
                        {"found", check.found}});
  }
  return {{"of_schedule", products}, {"other_wgmmas", checks.strangers}};
}

std::string render_sass(const SassUnit& unit, const SassView& view, TableFormat format) {
  if (format == TableFormat::json) return render_json(unit);
  if (format == TableFormat::csv) return render_lines_csv(unit);
  const SassText text(unit);
  std::string words = wrap(fmt::format("{}, {}", title_of(unit), unit.compilation.compiler));
  for (const SassKernel& kernel : unit.kernels) {
    words += fmt::format("\n{}", render_kernel(unit, text, kernel, view, format));
  }
  return words;
}

}  // namespace attnlab
