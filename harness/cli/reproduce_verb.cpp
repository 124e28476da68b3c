// attnlab reproduce: the papers' tables, published beside measured, and their claims judged.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/errors.h"
#include "harness/base/output.h"
#include "harness/base/shipped.h"
#include "harness/base/strict_json.h"
#include "harness/base/suggest.h"
#include "harness/base/text_file.h"
#include "harness/base/text_table.h"
#include "harness/cli/flag_values.h"
#include "harness/cli/verbs.h"
#include "harness/plan/axes.h"
#include "harness/plan/device_choice.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/report/reproduction.h"
#include "harness/session/experiment.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFolder = "sweeps/paper";

constexpr const char* kFooter =
    R"(Without a table it lists all of them, and what each needs. A table is named by its id, or by the
file that measures it with others; 'all' is every file. What a paper prints is never typed again:
sweeps/paper/README.md says how a table is described, and which ones cannot be measured here.

Each row has what the source prints, what was measured, half its 95 % interval, and the ratio. Then
come the claims of the source, in a form that can carry over to another GPU, each with a verdict:
  R  reproduced      as the source says, within a tolerance set before
  S  in shape        in the same direction, not of that size
  N  not reproduced
  X  not applicable  of something that these records are not
  U  not run         a record is missing, not ok, did not settle, or was sampled
Absolute times of other GPUs are shown and never judged.

A run writes into the folder of --out, for each file: NAME.sweep.json, NAME.jsonl (the records),
NAME.result.json. --resume goes on where a run ended; --records makes the tables anew from a folder,
and runs nothing. --check compares verdicts with those of an earlier run: a folder of --against, or
the one that comes with attnlab for the same device.

Examples:
  attnlab reproduce
  attnlab reproduce fa1-table21
  attnlab reproduce fa1-fig2-left --backend cpu --out results/paper
  attnlab reproduce fa2-fig5a fa2-fig5b --quick
  attnlab reproduce all --out results/paper --resume
  attnlab reproduce --records results/nvidia-h200/paper --check
  attnlab reproduce fa1-table9 --records results/paper --format csv

Exit codes, the first that applies:
  2  bad flags or files
  1  a point failed its verification
  4  --check: a claim is worse than it was
  3  --check: a claim that had a verdict has none now; else: a measurement is invalid
  0  all is well, whatever the verdicts)";

struct ReproduceFlags {
  std::vector<std::string> ids;
  std::string backend = "auto";
  std::string out, records, against;
  std::string format = "table";
  bool quick = false;
  bool resume = false;
  bool check = false;
  bool no_progress = false;
};

std::filesystem::path shipped_folder(const std::filesystem::path& folder) {
  const Shipped shipped = find_shipped(folder);
  if (!shipped.refused.empty()) throw UsageError(shipped.refused);
  if (shipped.path.empty()) {
    throw UsageError(
        fmt::format("{}: is neither in the source tree nor beside attnlab", folder.string()));
  }
  return shipped.path;
}

// Names a file, and which of its tables were asked for (empty: all).
struct Chosen {
  const PaperFile* paper = nullptr;
  std::vector<std::string> ids;
};

std::vector<std::string> ids_of(const PaperFile& paper) {
  std::vector<std::string> ids = paper.headlines;
  for (const PaperTable& table : paper.tables) ids.push_back(table.published);
  return ids;
}

// Returns what was asked for in the order of the files. Throws UsageError for an id that is none.
std::vector<Chosen> choose_papers(const std::vector<PaperFile>& papers,
                                  const std::vector<std::string>& asked,
                                  const PublishedTables& published) {
  std::set<std::string> left(asked.begin(), asked.end());
  std::vector<std::string> known = {"all"};
  std::vector<Chosen> chosen;
  const bool is_all = left.erase("all") > 0;
  for (const PaperFile& paper : papers) {
    const bool whole = left.erase(paper.name) > 0 || is_all;
    known.push_back(paper.name);
    Chosen choice{.paper = &paper};
    for (const std::string& id : ids_of(paper)) {
      known.push_back(id);
      if (left.erase(id) > 0) choice.ids.push_back(id);
    }
    if (whole) choice.ids.clear();
    if (whole || !choice.ids.empty()) chosen.push_back(choice);
  }
  if (left.empty()) return chosen;
  const std::string& id = *left.begin();
  if (published.contains(id)) {
    throw UsageError(
        fmt::format("{}: is published, and not measured here: {}/README.md says why", id, kFolder));
  }
  throw UsageError(fmt::format("there is no table '{}'{}: attnlab reproduce lists them", id,
                               suggestion(id, known)));
}

// Names a folder of results that comes with attnlab, and the device that they are of.
struct Committed {
  std::filesystem::path folder;
  std::string device;
};

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

std::filesystem::path folder_to_check(const ReproduceFlags& flags, const std::string& device) {
  if (!flags.against.empty()) {
    if (std::filesystem::is_directory(flags.against)) return flags.against;
    throw UsageError(fmt::format("--against: {}: there is no such folder", flags.against));
  }
  for (const Committed& run : committed_runs()) {
    if (run.device == device) return run.folder;
  }
  throw UsageError(
      fmt::format("--check: no run of a {} comes with attnlab: name the folder of an "
                  "earlier one by --against",
                  device.empty() ? "device without a name" : device));
}

// Says what a file needs.
std::string needs_of(const PaperFile& paper) {
  const PaperBudget& budget = paper.budget;
  std::string text =
      fmt::format("{:.3g} min of an H200, {:.3g} GiB", budget.minutes, budget.memory_gib);
  if (paper.has_cpu) {
    text += budget.cpu_minutes ? fmt::format("; cut, {:.3g} min of a CPU", *budget.cpu_minutes)
                               : "; cut, a CPU";
  }
  const Json peers = paper.sweep.value("peers", Json::array());
  if (!peers.empty()) {
    text += "; peers";
    for (const Json& peer : peers) text += " " + peer.get<std::string>();
  }
  return text;
}

// "3 R 1 S on NVIDIA H200" of the runs that come with attnlab.
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
    for (const std::string& id : ids_of(paper)) {
      const PublishedTable& table = find_published(published, id, paper.path.string());
      tables.push_back({{"id", id},
                        {"title", table.json["title"]},
                        {"work", table.work},
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

int print_list(const std::vector<PaperFile>& papers, const PublishedTables& published,
               TableFormat format) {
  const Json list = list_json(papers, published);
  if (format == TableFormat::json) {
    print_to(stdout, "{}\n", list.dump(1));
    return kExitGood;
  }
  std::size_t tables = 0;
  for (const Json& paper : list) {
    print_to(stdout, "{}",
             wrap(fmt::format("{}: {}", paper["name"].get<std::string>(),
                              paper["title"].get<std::string>())));
    for (const Json& table : paper["tables"]) {
      print_to(stdout, "{}",
               wrap(fmt::format("  {:<26}{}", table["id"].get<std::string>(),
                                table["title"].get<std::string>()),
                    28));
      ++tables;
    }
    print_to(stdout, "{}\n",
             wrap(fmt::format("  needs: {}. {}; verdicts: {}.", paper["needs"].get<std::string>(),
                              count_of(paper["claims"].get<std::size_t>(), "claim"),
                              paper["committed"].get<std::string>()),
                  9));
  }
  print_to(stdout, "{}",
           wrap(fmt::format("{} of {} published tables. Why the others are not measured here: "
                            "{}/README.md. To run one: attnlab reproduce ID.",
                            tables, published.size(), kFolder)));
  return kExitGood;
}

// Reads the records of a folder; those of a file that has none are no records.
std::vector<Json> read_if_there(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  std::vector<std::string> warnings;
  std::vector<Json> records = read_records(file, warnings);
  for (const std::string& warning : warnings) {
    print_to(stderr, "attnlab reproduce: {}\n", warning);
  }
  return last_of_each_point(records);
}

// Gathers what came of all files: their codes, and the claims that --check finds worse.
struct Total {
  int run_code = kExitGood;  // the gravest: 2, 1, 3, 0
  std::vector<Worsened> worsened;

  void add(int code) {
    const auto grave = [](int one) {
      return one == kExitUsage ? 3 : one == kExitVerificationFailed ? 2 : one == kExitGood ? 0 : 1;
    };
    if (grave(code) > grave(run_code)) run_code = code;
  }
};

int exit_code(const Total& total) {
  const bool comes_first =
      total.run_code == kExitUsage || total.run_code == kExitVerificationFailed;
  if (comes_first) return total.run_code;
  const auto is_lost = [](const Worsened& claim) { return claim.is_lost; };
  if (!std::ranges::all_of(total.worsened, is_lost)) return kExitSlower;
  if (!total.worsened.empty()) return kExitEnvironment;
  return total.run_code;
}

void check(const std::filesystem::path& folder, const Reproduction& result, Total& total) {
  const std::filesystem::path file = files_of(*result.paper, folder).result;
  if (!std::filesystem::exists(file)) {
    print_to(stderr, "attnlab reproduce: --check: {}: there is no earlier result of {}\n",
             file.string(), result.paper->name);
    return;
  }
  const std::vector<Worsened> worsened = worse_than(read_result(file), result);
  total.worsened.insert(total.worsened.end(), worsened.begin(), worsened.end());
}

bool failed_verification(const std::vector<Json>& records) {
  return std::ranges::any_of(records,
                             [](const Json& record) { return record["status"] == "failed"; });
}

// Says where and how files are run, or where their records lie.
struct Job {
  ExperimentCut cut;
  std::filesystem::path folder;
  std::filesystem::path earlier;  // of --check
  TableFormat format = TableFormat::table;
};

// Runs a file. Returns whether there may be something to show: of a run that was refused it says
// why, and the next file's turn comes.
bool run_one(const ReproduceFlags& flags, const PaperFile& paper, const Job& job, Total& total) {
  const ExperimentFiles files = files_of(paper, job.folder);
  print_to(stderr, "{}",
           wrap(fmt::format("{}: needs {}. Records: {}.", paper.name, needs_of(paper),
                            files.records.string())));
  int code = kExitGood;
  try {
    code = run_experiment(paper, job.cut, files, flags.resume, !flags.no_progress);
  } catch (const UsageError& error) {
    print_to(stderr, "attnlab reproduce: {}\n", error.what());
    code = kExitUsage;
  } catch (const std::runtime_error& error) {
    print_to(stderr, "attnlab reproduce: {}\n", error.what());
    code = kExitEnvironment;
  }
  total.add(code);
  return code != kExitUsage;
}

// Prints what came of a file, and saves it where it ran.
void show_one(const ReproduceFlags& flags, const Chosen& chosen, const PublishedTables& published,
              const Job& job, Total& total) {
  const ExperimentFiles files = files_of(*chosen.paper, job.folder);
  const std::vector<Json> records = read_if_there(files.records);
  if (failed_verification(records)) total.add(kExitVerificationFailed);
  const auto make = [&](const std::vector<std::string>& ids) {
    Reproduction result = reproduce(*chosen.paper, published, records, ids);
    result.records = files.records.filename().string();
    result.cut = cut_of(files);
    return result;
  };
  if (flags.records.empty()) replace_text(files.result, to_json(make({})).dump(1) + "\n");
  const Reproduction result = make(chosen.ids);
  print_to(stdout, "{}\n", render_reproduction(result, job.format));
  std::fflush(stdout);
  if (flags.check) check(job.earlier, result, total);
}

std::filesystem::path place_of(const ReproduceFlags& flags) {
  if (!flags.records.empty()) return flags.records;
  if (!flags.out.empty()) return flags.out;
  return fmt::format("results/paper-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr)));
}

// Returns the device of the first records that there are. Throws UsageError where a file that was
// asked for has none.
std::string device_of_records(const std::vector<Chosen>& chosen,
                              const std::filesystem::path& folder) {
  for (const Chosen& choice : chosen) {
    const std::filesystem::path file = files_of(*choice.paper, folder).records;
    if (!std::filesystem::exists(file)) {
      throw UsageError(fmt::format("--records: {}: there is no such file", file.string()));
    }
  }
  for (const Chosen& choice : chosen) {
    const std::vector<Json> records = read_if_there(files_of(*choice.paper, folder).records);
    if (!records.empty()) return exact(at(records.front(), {"device", "name"}));
  }
  return "";
}

void refuse_contradictions(const ReproduceFlags& flags) {
  const auto refuse_beside = [](bool is_given, const char* flag, const char* other) {
    if (is_given) throw UsageError(fmt::format("{}: leave it out beside {}", flag, other));
  };
  if (!flags.records.empty()) {
    refuse_beside(!flags.out.empty(), "--out", "--records, which runs nothing");
    refuse_beside(flags.resume, "--resume", "--records, which runs nothing");
    refuse_beside(flags.quick, "--quick", "--records, which runs nothing");
    refuse_beside(flags.backend != "auto", "--backend", "--records, which runs nothing");
  }
  if (flags.resume && flags.out.empty()) {
    throw UsageError("--resume: name the folder of the run by --out");
  }
  if (!flags.against.empty() && !flags.check) {
    throw UsageError("--against: is of --check, which is not given");
  }
}

// Returns the files that have records in a folder.
std::vector<Chosen> chosen_by_records(const std::vector<PaperFile>& papers,
                                      const std::filesystem::path& folder) {
  std::vector<Chosen> chosen;
  for (const PaperFile& paper : papers) {
    if (std::filesystem::exists(files_of(paper, folder).records)) chosen.push_back({&paper, {}});
  }
  if (chosen.empty()) {
    throw UsageError(
        fmt::format("--records: {} holds records of no paper's file", folder.string()));
  }
  return chosen;
}

int run(const ReproduceFlags& flags) {
  refuse_contradictions(flags);
  const TableFormat format = parse_format(flags.format, "--format");
  const std::filesystem::path folder = shipped_folder(kFolder);
  const std::vector<PaperFile> papers = read_papers(folder, builtin_registry());
  const PublishedTables published = read_published(folder / "published");
  const bool has_records = !flags.records.empty();
  if (flags.ids.empty() && !has_records) {
    return print_list(papers, published, format);
  }
  const std::vector<Chosen> chosen = flags.ids.empty()
                                         ? chosen_by_records(papers, flags.records)
                                         : choose_papers(papers, flags.ids, published);
  Job job{.cut = {.quick = flags.quick}, .folder = place_of(flags), .format = format};
  std::string device;
  if (has_records) {
    device = device_of_records(chosen, job.folder);
  } else {
    const Device chosen_device = choose_device(parse_backend(flags.backend, "--backend"));
    device = chosen_device.name;
    job.cut.backend =
        chosen_device.backend == Backend::cpu ? BackendChoice::cpu : BackendChoice::cuda;
  }
  if (flags.check) job.earlier = folder_to_check(flags, device);
  const bool is_all = std::ranges::find(flags.ids, "all") != flags.ids.end();
  Total total;
  for (const Chosen& choice : chosen) {
    if (is_all && job.cut.backend == BackendChoice::cpu && !has_records && !choice.paper->has_cpu) {
      print_to(stderr, "{}: left out, it needs a GPU\n", choice.paper->name);
      continue;
    }
    if (!has_records && !run_one(flags, *choice.paper, job, total)) continue;
    show_one(flags, choice, published, job, total);
  }
  for (const Worsened& claim : total.worsened) {
    print_to(stdout, "{}", wrap((claim.is_lost ? "lost: " : "worse: ") + claim.text));
  }
  return exit_code(total);
}

}  // namespace

Verb add_reproduce_verb(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("reproduce", "Measure the papers' tables and judge their claims");
  command->footer(kFooter);
  const auto flags = std::make_shared<ReproduceFlags>();
  command->add_option("tables", flags->ids, "Ids of tables or files, or all (default: list them)")
      ->type_name("ID");
  command->add_option("--backend", flags->backend, "auto, cpu (what a CPU can do of it) or cuda")
      ->type_name("NAME")
      ->group("Where");
  command->add_flag("--quick", flags->quick, "The part that the file names for a quick look")
      ->group("What");
  command->add_option("--records", flags->records, "Make the tables from this folder; run nothing")
      ->type_name("DIR")
      ->group("What");
  command->add_option("--out", flags->out, "Folder of what is written (results/paper-<time>)")
      ->type_name("DIR")
      ->group("Output");
  command->add_flag("--resume", flags->resume, "Go on with the records in the folder of --out")
      ->group("Output");
  add_table_format(*command, flags->format);
  add_no_progress(*command, flags->no_progress);
  command->add_flag("--check", flags->check, "Exit code 4 or 3 where verdicts got worse")
      ->group("Judgement");
  command->add_option("--against", flags->against, "Folder of the earlier run for --check")
      ->type_name("DIR")
      ->group("Judgement");
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
