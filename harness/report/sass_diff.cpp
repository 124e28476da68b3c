#include "harness/report/sass_diff.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "harness/report/sass_report.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 2> kSides = {"UNIT", "OTHER"};

// Pairs the kernels of one name; one without instructions stands for a unit that has none of it.
struct KernelPair {
  std::string name;
  std::array<SassCounts, 2> counts;
  std::array<ProductChecks, 2> products;
  std::vector<SassLinePair> lines;
};

SassKernel kernel_of(const SassUnit& unit, const std::string& name) {
  const auto found = std::ranges::find(unit.kernels, name, &SassKernel::name);
  return found == unit.kernels.end() ? SassKernel{.name = name} : *found;
}

KernelPair pair_up(const SassUnit& unit, const SassUnit& other, const std::string& name) {
  const SassKernel mine = kernel_of(unit, name), its = kernel_of(other, name);
  return {
      .name = name,
      .counts = {count_kinds(mine), count_kinds(its)},
      .products = {check_products(mine, products_of(unit, name)),
                   check_products(its, products_of(other, name))},
      .lines = differing_lines(SassText(unit).count_lines(mine), SassText(other).count_lines(its))};
}

std::vector<KernelPair> pair_up(const SassUnit& unit, const SassUnit& other) {
  std::vector<std::string> names;
  for (const SassUnit* side : {&unit, &other}) {
    for (const SassKernel& kernel : side->kernels) {
      if (std::ranges::find(names, kernel.name) == names.end()) names.push_back(kernel.name);
    }
  }
  std::vector<KernelPair> pairs;
  for (const std::string& name : names) pairs.push_back(pair_up(unit, other, name));
  return pairs;
}

std::string render(const TextTable& table, TableFormat format) {
  return format == TableFormat::markdown ? render_markdown(table) : render_plain(table);
}

std::string difference(std::size_t before, std::size_t now) {
  if (before == now) return "0";
  return fmt::format("{:+}", static_cast<std::int64_t>(now) - static_cast<std::int64_t>(before));
}

std::vector<TextCell> counts_row(const std::string& name, std::size_t unit, std::size_t other) {
  return {{name}, {fmt::format("{}", unit)}, {fmt::format("{}", other)}, {difference(unit, other)}};
}

TextTable kinds_table(const KernelPair& pair) {
  TextTable table{.columns = {{"", "kind", true},
                              {"instructions", kSides[0], false},
                              {"instructions", kSides[1], false},
                              {"", "difference", false}},
                  .rows = {}};
  for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
    const std::size_t unit = pair.counts[0].kinds[kind], other = pair.counts[1].kinds[kind];
    if (unit + other == 0) continue;
    table.rows.push_back(counts_row(name_of(static_cast<SassKind>(kind)), unit, other));
  }
  table.rows.push_back(counts_row("all", pair.counts[0].all, pair.counts[1].all));
  return table;
}

// Says "wgmma 8 -> 7, shared 4 -> 6, ...", in the order of the kinds, products first.
std::string describe_change(const SassLinePair& line) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> words;
  for (std::size_t kind = 0; kind < kSassKinds && words.size() <= kShown; ++kind) {
    const std::size_t unit = line.kinds[0][kind], other = line.kinds[1][kind];
    if (unit == other) continue;
    words.push_back(fmt::format("{} {} -> {}", name_of(static_cast<SassKind>(kind)), unit, other));
  }
  if (words.size() > kShown) words.back() = "...";
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string number_or_dash(int line) { return line == 0 ? "-" : fmt::format("{}", line); }

// Says "kernels/v3/forward.cuh:131", or ":131 -> 133" where an edit above has shifted it, "-" where
// it is not.
std::string describe_place(const SassLinePair& line) {
  const auto& [unit, other] = line.lines;
  if (unit == other) return fmt::format("{}:{}", line.file, unit);
  return fmt::format("{}:{} -> {}", line.file, number_or_dash(unit), number_or_dash(other));
}

TextTable lines_table(const std::vector<SassLinePair>& lines) {
  TextTable table{.columns = {{"", "line", true},
                              {"", "difference", false},
                              {"", "kinds", true},
                              {"", "text", true}},
                  .rows = {}};
  for (const SassLinePair& line : lines) {
    table.rows.push_back({{describe_place(line)},
                          {difference(line.all[0], line.all[1])},
                          {describe_change(line)},
                          {shortened(line.text)}});
  }
  return table;
}

std::string render_pair(const KernelPair& pair, TableFormat format) {
  std::string words =
      wrap(fmt::format("{}: {} and {}", pair.name, count_of(pair.counts[0].all, "instruction"),
                       count_of(pair.counts[1].all, "instruction")));
  words += fmt::format("\n{}", render(kinds_table(pair), format));
  if (!pair.lines.empty()) words += fmt::format("\n{}", render(lines_table(pair.lines), format));
  std::string remarks;
  for (std::size_t side = 0; side < kSides.size(); ++side) {
    const std::string remark = describe_products(pair.products[side], pair.counts[side]);
    if (!remark.empty()) remarks += wrap(fmt::format("{}: {}", kSides[side], remark));
  }
  if (remarks.empty()) return words;
  const bool compares = !pair.products[0].products.empty() || !pair.products[1].products.empty();
  return fmt::format("{}\n{}{}", words, remarks, compares ? wrap(kHowCompared) : "");
}

Json pair_json(const KernelPair& pair) {
  const auto kinds_json = [](const KindCounts& unit, const KindCounts& other) {
    Json object = Json::object();
    for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
      object[name_of(static_cast<SassKind>(kind))] = {unit[kind], other[kind]};
    }
    return object;
  };
  Json lines = Json::array();
  for (const SassLinePair& line : pair.lines) {
    lines.push_back({{"file", line.file},
                     {"text", line.text},
                     {"line", line.lines},
                     {"instructions", line.all},
                     {"kinds", kinds_json(line.kinds[0], line.kinds[1])}});
  }
  return {{"kernel", pair.name},
          {"instructions", {pair.counts[0].all, pair.counts[1].all}},
          {"kinds", kinds_json(pair.counts[0].kinds, pair.counts[1].kinds)},
          {"products", {products_json(pair.products[0]), products_json(pair.products[1])}},
          {"lines", lines}};
}

std::string render_json(const SassUnit& unit, const SassUnit& other,
                        const std::vector<KernelPair>& pairs) {
  Json kernels = Json::array();
  for (const KernelPair& pair : pairs) kernels.push_back(pair_json(pair));
  const Json all = {{"schema", kSassDiffSchema},
                    {"units", {identity_json(unit), identity_json(other)}},
                    {"kernels", kernels}};
  return all.dump(1) + "\n";
}

std::string render_lines_csv(const std::vector<KernelPair>& pairs) {
  TextTable table;
  for (const char* title : {"kernel", "file", "line_unit", "line_other", "kind",
                            "instructions_unit", "instructions_other"}) {
    table.columns.push_back({.title = title});
  }
  for (const KernelPair& pair : pairs) {
    for (const SassLinePair& line : pair.lines) {
      for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
        const std::size_t unit = line.kinds[0][kind], other = line.kinds[1][kind];
        if (unit == other) continue;
        table.rows.push_back({{pair.name},
                              {line.file},
                              {number_or_dash(line.lines[0])},
                              {number_or_dash(line.lines[1])},
                              {name_of(static_cast<SassKind>(kind))},
                              {fmt::format("{}", unit)},
                              {fmt::format("{}", other)}});
      }
    }
  }
  return render_csv(table);
}

// Units have names of their own, and so has the file of each one's text.
std::string file_of(const SassLine& line) {
  return line.place.file.ends_with(".cu") ? "the unit" : line.place.file;
}

}  // namespace

std::vector<SassLinePair> differing_lines(const std::vector<SassLine>& unit,
                                          const std::vector<SassLine>& other) {
  std::map<std::tuple<std::string, std::string, std::size_t>, SassLinePair> pairs;
  const std::array<const std::vector<SassLine>*, 2> sides = {&unit, &other};
  for (std::size_t side = 0; side < sides.size(); ++side) {
    for (const SassLine& line : *sides[side]) {
      SassLinePair& pair = pairs[{file_of(line), line.text, line.same_text}];
      pair.file = file_of(line);
      pair.text = line.text;
      pair.lines[side] = line.place.line;
      pair.kinds[side] = line.kinds;
      pair.all[side] = line.all;
    }
  }
  std::vector<SassLinePair> differing;
  for (auto& [key, pair] : pairs) {
    if (pair.kinds[0] != pair.kinds[1]) differing.push_back(std::move(pair));
  }
  std::ranges::stable_sort(differing, {}, [](const SassLinePair& pair) {
    return std::pair(pair.file, std::max(pair.lines[0], pair.lines[1]));
  });
  return differing;
}

std::string render_sass_diff(const SassUnit& unit, const SassUnit& other, TableFormat format) {
  const std::vector<KernelPair> pairs = pair_up(unit, other);
  if (format == TableFormat::json) return render_json(unit, other, pairs);
  if (format == TableFormat::csv) return render_lines_csv(pairs);
  std::string words;
  for (const auto& [side, shown] : {std::pair(kSides[0], &unit), std::pair(kSides[1], &other)}) {
    words += wrap(fmt::format("{}: {}, {}", side, title_of(*shown), shown->compilation.compiler));
  }
  for (const KernelPair& pair : pairs) words += fmt::format("\n{}", render_pair(pair, format));
  return words;
}

}  // namespace attnlab
