// Implements attnlab report, which makes one page of what attnlab reproduce found.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/text_file.h"
#include "harness/base/text_table.h"
#include "harness/cli/verbs.h"
#include "harness/report/html_page.h"
#include "harness/report/reproduction.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnding = ".result.json";
constexpr const char* kFooter =
    R"(The page holds all that it shows: tables, verdicts, and the pictures that scripts/plot.py left
beside the results (ID.svg). It loads nothing and runs nothing.

Examples:
  attnlab reproduce all --out results/paper
  python3 scripts/plot.py --out results/paper results/paper
  attnlab report results/paper --html report.html

Exit codes: 0 written, 2 bad flags or files.)";

struct ReportFlags {
  std::vector<std::string> places;
  std::string html;
};

// Returns the results that the places name: a file, or all files of a folder, sorted by name.
std::vector<fs::path> result_files(const std::vector<std::string>& places) {
  std::vector<fs::path> files;
  for (const std::string& place : places) {
    if (!fs::is_directory(place)) {
      files.emplace_back(place);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(place)) {
      if (entry.path().string().ends_with(kEnding)) found.push_back(entry.path());
    }
    if (found.empty()) {
      throw UsageError(
          fmt::format("{}: holds no *{}: attnlab reproduce --out writes them", place, kEnding));
    }
    std::ranges::sort(found);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

PageResult read_page(const fs::path& file, std::size_t& figures) {
  PageResult page{.result = read_result(file)};
  const std::string own = page.result.at("name");
  std::vector<std::string> names = {own + "-claims", own + "-roofline"};
  for (const auto& table : page.result.at("tables")) names.push_back(table.at("id"));
  for (const std::string& name : names) {
    const fs::path picture = file.parent_path() / (name + ".svg");
    if (!fs::exists(picture)) continue;
    page.figures.push_back(
        {name, inline_svg(read_text(picture), fmt::format("f{}-", ++figures), picture.string())});
  }
  return page;
}

int run(const ReportFlags& flags) {
  std::vector<PageResult> results;
  std::size_t figures = 0;
  std::string page;
  std::set<std::string> names;
  for (const fs::path& file : result_files(flags.places)) {
    try {
      results.push_back(read_page(file, figures));
      const std::string name = results.back().result.at("name");
      if (!names.insert(name).second) {
        throw UsageError(fmt::format("{}: a result of {} is there already: name each once",
                                     file.string(), name));
      }
      page = render_page(results);  // a complaint about a result thus names its file
    } catch (const nlohmann::json::exception& error) {
      throw UsageError(fmt::format("{}: lacks a key or has it in another form: {}", file.string(),
                                   error.what()));
    }
  }
  replace_text(flags.html, page);
  print_to(stdout, "{}: {}, {}, {} KiB.\n", flags.html, count_of(results.size(), "experiment"),
           count_of(figures, "picture"), page.size() / 1024);
  return kExitGood;
}

}  // namespace

Verb add_report_verb(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Write one HTML page of what reproduce found");
  command->footer(kFooter);
  const auto flags = std::make_shared<ReportFlags>();
  command->add_option("places", flags->places, "Folders of attnlab reproduce, or *.result.json")
      ->required()
      ->type_name("DIR");
  command->add_option("--html", flags->html, "The page to write")
      ->required()
      ->type_name("FILE")
      ->group("Output");
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
