#include "harness/cli/reproduce_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/output.h"
#include "harness/base/shipped.h"
#include "harness/report/reproduction.h"
#include "harness/session/experiment.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

// Counts the verdicts of the runs that come with attnlab, as in "3 R 1 S on NVIDIA H200".
std::string states_of(const PaperFile& paper, const std::vector<Committed>& runs) {
  std::string text;
  for (const Committed& run : runs) {
    const std::filesystem::path file = files_of(paper, run.folder).result;
    if (!std::filesystem::exists(file)) continue;
    std::map<std::string, int> counts;
    const Json result = read_result(file);
    for (const Json& claim : result.at("claims")) ++counts[claim.at("finding").get<std::string>()];
    std::string words;
    for (const char* letter : {"R", "S", "N", "X", "U"}) {
      if (counts.contains(letter)) words += fmt::format(" {} {}", counts[letter], letter);
    }
    text += fmt::format("{}{} on {}", text.empty() ? "" : "; ",
                        words.empty() ? "no claim" : words.substr(1),
                        result["device"].get<std::string>());
  }
  return text.empty() ? "none yet" : text;
}

Json list_json(const std::vector<PaperFile>& papers, const PublishedTables& published) {
  const std::vector<Committed> runs = committed_runs();
  Json list = Json::array();
  for (const PaperFile& paper : papers) {
    Json tables = Json::array();
    const std::string where = paper.path.string();
    for (const std::string& id : ids_of(paper)) {
      const PublishedTable& table = find_published(published, id, where);
      tables.push_back({{"id", id},
                        {"title", table.json["title"]},
                        {"work", table.work},
                        {"source", table.json["source"]},
                        {"gpu", published_gpu(table)}});
    }
    list.push_back({{"name", paper.name},
                    {"title", paper.title},
                    {"minutes", paper.budget.minutes},
                    {"memory_gib", paper.budget.memory_gib},
                    {"cpu", paper.has_cpu},
                    {"peers", paper.sweep.value("peers", Json::array())},
                    {"needs", needs_of(paper)},
                    {"claims", paper.claims.size()},
                    {"committed", states_of(paper, runs)},
                    {"tables", tables}});
  }
  return list;
}

// Prints where a file's tables are from: those of one place together, since most are.
void print_sources(const PaperFile& paper, const PublishedTables& published) {
  std::vector<std::pair<std::string, std::string>> sources;  // a place, and its tables
  for (const std::string& id : ids_of(paper)) {
    const std::string source = source_of(find_published(published, id, paper.path.string()));
    const auto known =
        std::ranges::find(sources, source, [](const auto& one) { return one.first; });
    if (known == sources.end()) {
      sources.emplace_back(source, id);
    } else {
      known->second += ", " + id;
    }
  }
  for (const auto& [source, ids] : sources) {
    const std::string of = sources.size() == 1 ? "" : fmt::format(" of {}", ids);
    print_to(stdout, "{}", wrap(fmt::format("  source{}: {}.", of, source), 9));
  }
}

}  // namespace

std::vector<std::string> ids_of(const PaperFile& paper) {
  std::vector<std::string> ids = paper.headlines;
  for (const PaperTable& table : paper.tables) ids.push_back(table.published);
  return ids;
}

std::string needs_of(const PaperFile& paper) {
  const PaperBudget& budget = paper.budget;
  std::string text =
      fmt::format("{:.3g} min of an H200, {:.3g} GiB", budget.minutes, budget.memory_gib);
  if (paper.has_cpu) {
    const bool is_cut = !paper.cpu.replace.empty() || !paper.cpu.keep.empty();
    text += is_cut ? "; cut, " : "; in full, ";
    text += budget.cpu_minutes ? fmt::format("{:.3g} min of a CPU", *budget.cpu_minutes) : "a CPU";
  }
  const Json peers = paper.sweep.value("peers", Json::array());
  if (!peers.empty()) {
    text += "; peers";
    for (const Json& peer : peers) text += " " + peer.get<std::string>();
  }
  return text;
}

std::string missing_peaks(const PaperFile& paper, const KnownPeaks& known) {
  if (known.peaks) return "";
  const auto count = static_cast<std::size_t>(std::ranges::count(
      paper.claims, std::string("pct_peak"), [](const Claim& claim) { return claim.value; }));
  if (count == 0) return "";
  return fmt::format("{}: {} of the share of a peak will be U: {}", paper.name,
                     count_of(count, "claim"), known.reason);
}

std::vector<Committed> committed_runs() {
  std::vector<Committed> runs;
  const Shipped results = find_shipped("results");
  std::error_code error;
  if (results.path.empty()) return runs;
  for (const auto& entry : std::filesystem::directory_iterator(results.path, error)) {
    const std::filesystem::path folder = entry.path() / "paper";
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (!file.path().string().ends_with(".result.json")) continue;
      runs.push_back({folder, read_result(file.path())["device"].get<std::string>()});
      break;
    }
  }
  std::ranges::sort(runs, {}, [](const Committed& run) { return run.folder; });
  return runs;
}

void print_list(const std::vector<PaperFile>& papers, const PublishedTables& published,
                TableFormat format) {
  const Json list = list_json(papers, published);
  if (format == TableFormat::json) {
    print_to(stdout, "{}\n", list.dump(1));
    return;
  }
  std::size_t tables = 0;
  for (std::size_t i = 0; i < papers.size(); ++i) {
    const Json& paper = list[i];
    print_to(stdout, "{}", wrap(fmt::format("{}: {}", papers[i].name, papers[i].title)));
    for (const Json& table : paper["tables"]) {
      print_to(stdout, "{}",
               wrap(fmt::format("  {:<26}{}", table["id"].get<std::string>(),
                                table["title"].get<std::string>()),
                    28));
      ++tables;
    }
    print_sources(papers[i], published);
    print_to(stdout, "{}\n",
             wrap(fmt::format("  needs: {}. {}; verdicts: {}.", paper["needs"].get<std::string>(),
                              count_of(paper["claims"].get<std::size_t>(), "claim"),
                              paper["committed"].get<std::string>()),
                  9));
  }
  print_to(stdout, "{}",
           wrap(fmt::format("{} of {} published tables. Why the others are not measured here: "
                            "{}/README.md. To run one: attnlab reproduce ID.",
                            tables, published.size(), kPaperFolder)));
}

}  // namespace attnlab
