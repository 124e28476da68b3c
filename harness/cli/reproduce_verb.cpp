// Implements attnlab reproduce, which puts published tables beside measured ones and judges claims.
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
#include "harness/cli/reproduce_list.h"
#include "harness/cli/verbs.h"
#include "harness/plan/axes.h"
#include "harness/plan/device_choice.h"
#include "harness/plan/unsupported.h"
#include "harness/record/record_file.h"
#include "harness/record/record_json.h"
#include "harness/report/artifact_form.h"
#include "harness/report/reproduction.h"
#include "harness/report/two_runs.h"
#include "harness/session/device_runs.h"
#include "harness/session/experiment.h"
#include "kernels/api/compiler.h"
#include "kernels/api/sha256.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFooter =
    R"(Without a table it lists all of them, and what each needs. A table is named by its id, or by
the file that measures it with others; 'all' is every file. What a paper prints is never typed again:
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
NAME.result.json. --resume goes on where a run ended, with --unsettled also with claims that are U
since a clock did not settle; --records makes the tables anew from a folder, and runs nothing.
--protocols measures by the other states of caches and clocks, too (hot and cold, burst and
settled), into NAME.cold-burst.jsonl and its like, and shows beside each ratio the least and the
most of the medians; with --records it shows what a folder has. Four protocols take four times as
long, settled ones 0.5 s a sample more. --devices shares each file's points among several GPUs of
this machine, as attnlab run does. --check compares verdicts with those of an earlier run: a folder
of --against, or the one that comes with attnlab for the same device.

--records with --beside puts the verdicts and figures of two runs next to one another: do they agree
on another day, or on another GPU? Both are judged from their records, by today's rules.

--ae writes a form in Markdown for whoever evaluates an artifact: each claim with the command, the
expected result and tolerance, time and memory, the environment, and SHA-256 of attnlab, of the
kernels' texts and of the records. With --records what was measured stands in it, and the verdict;
without, it is blank.

Examples:
  attnlab reproduce
  attnlab reproduce fa1-table21
  attnlab reproduce fa1-fig2-left --backend cpu --out results/paper
  attnlab reproduce fa2-fig5a fa2-fig5b --quick
  attnlab reproduce all --out results/paper --resume
  attnlab reproduce fa3-fp8 --out results/paper --resume --unsettled
  attnlab reproduce all --devices all --out results/paper
  attnlab reproduce fa2-forward --protocols --out results/paper
  attnlab reproduce --records results/nvidia-h200/paper --check
  attnlab reproduce --records results/nvidia-h200/paper \
      --beside results/nvidia-h100/paper
  attnlab reproduce fa1-table21 fa2-forward --ae to-be-filled-in.md
  attnlab reproduce --records results/paper --ae filled-in.md
  attnlab reproduce fa1-table9 --records results/paper --format csv

Exit codes, the first that applies:
  2  bad flags or files
  1  a point failed its verification
  4  --check: a claim got worse: one that held (R, S) is N, or R became S
  3  --check: a claim that had a verdict (R, S, N) is lost: X, U or gone;
     else: there is no GPU for --backend cuda, a measurement is invalid, or
     another run holds the records
  0  all is well, whatever the verdicts. A claim that was X or U and is N
     is named as unforeseen: it never held, and where it had before, a
     check gave 3 when it was lost)";

struct ReproduceFlags {
  std::vector<std::string> ids;
  std::string backend = "auto";
  std::string devices;
  std::string out, records, against, beside, ae;
  std::string format = "table";
  bool quick = false;
  bool protocols = false;
  bool resume = false;
  bool unsettled = false;
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

// Returns what was asked for, in the order of the files. Throws UsageError for an unknown id.
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
    throw UsageError(fmt::format("{}: is published, and not measured here: {}/README.md says why",
                                 id, kPaperFolder));
  }
  throw UsageError(fmt::format("there is no table '{}' (attnlab reproduce lists them){}", id,
                               short_suggestion(id, known)));
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

// Reads the records of a file; a file that does not exist has none.
std::vector<Json> read_if_there(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  std::vector<std::string> warnings;
  std::vector<Json> records = read_records(file, warnings);
  for (const std::string& warning : warnings) {
    print_to(stderr, "attnlab reproduce: {}\n", warning);
  }
  return last_of_each_point(records);
}

// Sums up what came of all files: their codes, and the claims that --check finds worse.
struct Total {
  int run_code = kExitGood;  // the gravest: 2, 1, 3, 0
  std::vector<Worsened> worsened;
  int checked = 0;  // files that --check had an earlier result of

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
  const auto has = [&](Setback how) {
    return std::ranges::any_of(total.worsened, [&](const Worsened& one) { return one.how == how; });
  };
  if (has(Setback::worse)) return kExitSlower;
  if (has(Setback::lost)) return kExitEnvironment;
  return total.run_code;
}

void check(const std::filesystem::path& folder, const Reproduction& result, Total& total) {
  const std::filesystem::path file = files_of(*result.paper, folder).result;
  if (!std::filesystem::exists(file)) {
    print_to(stderr, "attnlab reproduce: --check: {}: there is no earlier result of {}\n",
             file.string(), result.paper->name);
    return;
  }
  ++total.checked;
  const std::vector<Worsened> worsened = worse_than(read_result(file), result);
  total.worsened.insert(total.worsened.end(), worsened.begin(), worsened.end());
}

// Counts the claims of a file as lost if an earlier run has its result but this folder has no
// records of it.
void check_gone(const std::vector<PaperFile>& papers, const std::vector<Chosen>& chosen,
                const PublishedTables& published, const std::filesystem::path& earlier,
                Total& total) {
  for (const PaperFile& paper : papers) {
    const bool is_here = std::ranges::find(chosen, &paper, &Chosen::paper) != chosen.end();
    if (is_here || !std::filesystem::exists(files_of(paper, earlier).result)) continue;
    check(earlier, reproduce(paper, published, {}, {}), total);
  }
}

bool failed_verification(const std::vector<Json>& records) {
  return std::ranges::any_of(records,
                             [](const Json& record) { return record["status"] == "failed"; });
}

// Says where and how files are run, or where their records lie.
struct Job {
  ExperimentCut cut;
  Backend backend = Backend::cpu;
  KnownPeaks peaks;  // of the device of a run
  std::filesystem::path folder;
  std::filesystem::path earlier;  // of --check
  TableFormat format = TableFormat::table;
};

// Runs a file as the cut says. Returns the exit code; where the run was refused or could not be
// made, prints why.
int run_cut(const ReproduceFlags& flags, const PaperFile& paper, const ExperimentCut& cut,
            const ExperimentFiles& files) {
  try {
    return run_experiment(paper, cut, files, flags.resume, !flags.no_progress);
  } catch (const UsageError& error) {
    print_to(stderr, "attnlab reproduce: {}\n", error.what());
    return kExitUsage;
  } catch (const std::runtime_error& error) {
    print_to(stderr, "attnlab reproduce: {}\n", error.what());
    return kExitEnvironment;
  }
}

// Returns the states beside the file's own, each with why it is not measured there ("" if it is).
std::vector<std::pair<TimingState, std::string>> other_states(const PaperFile& paper,
                                                              Backend backend) {
  const bool is_timed = has_times(paper);
  const TimingState own = own_state(paper);
  std::vector<std::pair<TimingState, std::string>> states;
  for (const TimingState state : kTimingStates) {
    if (state == own) continue;
    states.emplace_back(state, is_timed ? why_not(state, backend) : "no cell comes from a time");
  }
  return states;
}

// Runs a file, by other protocols too if these are asked for. Returns false only if the run was
// refused: there is nothing to show, and the next file's turn comes.
bool run_one(const ReproduceFlags& flags, const PaperFile& paper, const Job& job, Total& total) {
  const ExperimentFiles files = files_of(paper, job.folder);
  print_to(stderr, "{}",
           wrap(fmt::format("{}: needs {}. Records: {}.", paper.name, needs_of(paper),
                            files.records.string())));
  if (job.backend == Backend::cuda) {
    const std::string missing = missing_peaks(paper, job.peaks);
    if (!missing.empty()) print_to(stderr, "{}", wrap(missing));
  }
  if (job.cut.quick && !paper.has_quick) {
    print_to(stderr, "{}",
             wrap(fmt::format("{}: has no part for --quick: it is not cut by it.", paper.name)));
  }
  const int code = run_cut(flags, paper, job.cut, files);
  total.add(code);
  if (code == kExitUsage || !flags.protocols) return code != kExitUsage;
  for (const auto& [state, missing] : other_states(paper, job.backend)) {
    if (!missing.empty()) continue;
    const ExperimentFiles others = files_of(paper, job.folder, state);
    print_to(stderr, "{}",
             wrap(fmt::format("{} once more, {}. Records: {}.", paper.name, to_string(state),
                              others.records.string())));
    ExperimentCut cut = job.cut;
    cut.state = state;
    total.add(run_cut(flags, paper, cut, others));
  }
  return true;
}

// Throws UsageError where a record is not of the state that its file is named after.
void refuse_other_states(const std::vector<Json>& records, TimingState state,
                         const std::filesystem::path& file) {
  for (const Json& record : records) {
    const Json protocol = at(record, {"protocol"});
    if (protocol.value("cache", "hot") == to_string(state.cache) &&
        protocol.value("regime", "burst") == to_string(state.regime)) {
      continue;
    }
    throw UsageError(fmt::format(
        "{}: a record is of caches {} and regime {}: remove the file, and measure "
        "again by reproduce --protocols --resume",
        file.string(), protocol.value("cache", "hot"), protocol.value("regime", "burst")));
  }
}

// Reads the records that a folder has of a file by other protocols than its own.
OtherProtocols read_protocols(const PaperFile& paper, const Job& job) {
  OtherProtocols protocols{.own = to_string(own_state(paper))};
  for (auto& [state, missing] : other_states(paper, job.backend)) {
    const std::filesystem::path file = files_of(paper, job.folder, state).records;
    std::vector<Json> records = missing.empty() ? read_if_there(file) : std::vector<Json>();
    refuse_other_states(records, state, file);
    if (missing.empty() && records.empty()) missing = "not measured";
    const std::string name = missing.empty() ? file.filename().string() : "";
    protocols.others.emplace_back(ProtocolUse{to_string(state), name, missing}, std::move(records));
  }
  return protocols;
}

// Prints what came of a file, and saves it where it ran.
void show_one(const ReproduceFlags& flags, const Chosen& chosen, const PublishedTables& published,
              const Job& job, Total& total) {
  const ExperimentFiles files = files_of(*chosen.paper, job.folder);
  const std::vector<Json> records = read_if_there(files.records);
  if (failed_verification(records)) total.add(kExitVerificationFailed);
  const OtherProtocols protocols =
      flags.protocols ? read_protocols(*chosen.paper, job) : OtherProtocols();
  for (const auto& other : protocols.others) {
    if (failed_verification(other.second)) total.add(kExitVerificationFailed);
  }
  const auto make = [&](const std::vector<std::string>& ids) {
    Reproduction result = reproduce(*chosen.paper, published, records, ids, protocols);
    result.records = files.records.filename().string();
    result.cut = cut_of(files);
    if (flags.protocols) result.protocols.front().file = result.records;
    return result;
  };
  if (flags.records.empty()) replace_text(files.result, to_json(make({})).dump(1) + "\n");
  const Reproduction result = make(chosen.ids);
  print_to(stdout, "{}\n", render_reproduction(result, job.format));
  std::fflush(stdout);
  if (flags.check) check(job.earlier, result, total);
}

// Returns the digests of a file's records, of all protocols that the folder has.
Digests digests_of(const PaperFile& paper, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files = {files_of(paper, folder).records};
  for (const TimingState state : kTimingStates) {
    files.push_back(files_of(paper, folder, state).records);
  }
  Digests digests;
  for (const std::filesystem::path& file : files) {
    if (std::filesystem::exists(file)) digests[file.filename().string()] = sha256(read_text(file));
  }
  return digests;
}

// Returns whether the folder's records of a file come from the sweep that --quick leaves, and that
// is another one than without it.
bool is_of_quick(const PaperFile& paper, const std::filesystem::path& folder, bool on_cpu) {
  const std::filesystem::path sweep = files_of(paper, folder).sweep;
  if (!paper.has_quick || folder.empty() || !std::filesystem::exists(sweep)) return false;
  const BackendChoice backend = on_cpu ? BackendChoice::cpu : BackendChoice::cuda;
  const Json ran = read_json_file(sweep);
  return ran != sweep_to_run(paper, {.backend = backend}) &&
         ran == sweep_to_run(paper, {.backend = backend, .quick = true});
}

// Writes the form of --ae; without records it is a blank one.
int write_form(const ReproduceFlags& flags, const std::vector<Chosen>& chosen,
               const PublishedTables& published) {
  ArtifactForm form{.program = sha256(read_text("/proc/self/exe")), .folder = flags.records};
  for (const auto& [path, text] : kernel_texts()) form.texts[path] = sha256(text);
  Total total;
  std::size_t claims = 0;
  for (const Chosen& choice : chosen) {
    const PaperFile& paper = *choice.paper;
    FormExperiment experiment{.arguments = paper.name, .needs = needs_of(paper)};
    if (!choice.ids.empty()) experiment.arguments = fmt::format("{}", fmt::join(choice.ids, " "));
    std::vector<Json> records;
    if (!flags.records.empty()) {
      records = read_if_there(files_of(paper, flags.records).records);
      experiment.records = digests_of(paper, flags.records);
    }
    const bool on_cpu = !records.empty() && records.front()["backend"] == "cpu";
    if (on_cpu) experiment.arguments += " --backend cpu";
    if (is_of_quick(paper, flags.records, on_cpu)) experiment.arguments += " --quick";
    if (failed_verification(records)) total.add(kExitVerificationFailed);
    experiment.found = reproduce(paper, published, records, choice.ids);
    if (!flags.records.empty()) experiment.found.cut = cut_of(files_of(paper, flags.records));
    claims += experiment.found.claims.size();
    form.experiments.push_back(std::move(experiment));
  }
  replace_text(flags.ae, render_artifact_form(form));
  print_to(stdout, "{}: {}, {}.\n", flags.ae, count_of(form.experiments.size(), "experiment"),
           count_of(claims, "claim"));
  return exit_code(total);
}

// Prints what two folders of records say of the same experiments.
int show_two_runs(const ReproduceFlags& flags, const std::vector<PaperFile>& papers,
                  const std::vector<Chosen>& chosen, const PublishedTables& published,
                  TableFormat format) {
  const std::filesystem::path here = flags.records, there = flags.beside;
  const auto is_in = [](const PaperFile& paper, const std::filesystem::path& folder) {
    return std::filesystem::exists(files_of(paper, folder).records);
  };
  TwoRuns runs;
  for (const PaperFile& paper : papers) {
    if (flags.ids.empty() && !is_in(paper, here) && is_in(paper, there)) {
      runs.missing.push_back(paper.name);
    }
  }
  std::vector<Reproduction> of_here, of_there;
  const auto judge_anew = [&](const Chosen& choice, const std::filesystem::path& folder) {
    return reproduce(*choice.paper, published,
                     read_if_there(files_of(*choice.paper, folder).records), choice.ids);
  };
  for (const Chosen& choice : chosen) {
    if (!is_in(*choice.paper, there)) {
      runs.missing.push_back(choice.paper->name);
      continue;
    }
    of_here.push_back(judge_anew(choice, here));
    of_there.push_back(judge_anew(choice, there));
    const std::vector<ClaimOfTwoRuns> pairs = pair_claims(of_here.back(), of_there.back());
    runs.claims.insert(runs.claims.end(), pairs.begin(), pairs.end());
  }
  if (of_there.empty()) {
    throw UsageError(
        fmt::format("--beside: {} has no records of what --records has: name a "
                    "folder that reproduce --out filled",
                    flags.beside));
  }
  runs.here = describe_run(flags.records, of_here);
  runs.there = describe_run(flags.beside, of_there);
  print_to(stdout, "{}", render_two_runs(runs, format));
  return kExitGood;
}

std::filesystem::path place_of(const ReproduceFlags& flags) {
  if (!flags.records.empty()) return flags.records;
  if (!flags.out.empty()) return flags.out;
  return fmt::format("results/paper-{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr)));
}

// Returns the "device" of the first records that exist, null if there are none. Throws UsageError
// where a file that was asked for has none.
Json device_of_records(const std::vector<Chosen>& chosen, const std::filesystem::path& folder) {
  for (const Chosen& choice : chosen) {
    const std::filesystem::path file = files_of(*choice.paper, folder).records;
    if (!std::filesystem::exists(file)) {
      throw UsageError(fmt::format("--records: {}: there is no such file", file.string()));
    }
  }
  for (const Chosen& choice : chosen) {
    const std::vector<Json> records = read_if_there(files_of(*choice.paper, folder).records);
    if (!records.empty()) return at(records.front(), {"device"});
  }
  return nullptr;
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
    refuse_beside(!flags.devices.empty(), "--devices", "--records, which runs nothing");
  }
  if (!flags.ae.empty()) {
    refuse_beside(!flags.out.empty(), "--out", "--ae, which runs nothing");
    refuse_beside(flags.resume, "--resume", "--ae, which runs nothing");
    refuse_beside(flags.quick, "--quick", "--ae, which runs nothing");
    refuse_beside(flags.backend != "auto", "--backend", "--ae, which runs nothing");
    refuse_beside(!flags.devices.empty(), "--devices", "--ae, which runs nothing");
    refuse_beside(flags.protocols, "--protocols", "--ae, whose claims rest on a table's own");
    refuse_beside(flags.check, "--check", "--ae, which writes a form");
    refuse_beside(flags.format != "table", "--format", "--ae, which writes Markdown");
  }
  if (flags.resume && flags.out.empty()) {
    throw UsageError("--resume: name the folder of the run by --out");
  }
  if (flags.unsettled && !flags.resume) {
    throw UsageError("--unsettled: is of --resume, which is not given");
  }
  if (!flags.against.empty() && !flags.check) {
    throw UsageError("--against: is of --check, which is not given");
  }
  if (flags.beside.empty()) return;
  if (flags.records.empty()) {
    throw UsageError("--beside: compares a folder of records: name the other one by --records");
  }
  refuse_beside(flags.check, "--check", "--beside, which compares and judges no run");
  refuse_beside(flags.protocols, "--protocols", "--beside, whose claims rest on a table's own");
  refuse_beside(!flags.ae.empty(), "--ae", "--beside, which writes no form");
}

// Throws where a flag asks for what the list of tables does not have: a script that forgot the ids
// must not take the list for a run that went well.
void refuse_beside_list(const ReproduceFlags& flags, TableFormat format) {
  const std::pair<bool, const char*> given[] = {{flags.check, "--check"},
                                                {flags.quick, "--quick"},
                                                {flags.protocols, "--protocols"},
                                                {!flags.out.empty(), "--out"},
                                                {flags.backend != "auto", "--backend"},
                                                {!flags.devices.empty(), "--devices"},
                                                {flags.no_progress, "--no-progress"}};
  for (const auto& [is_given, flag] : given) {
    if (is_given) throw UsageError(fmt::format("{}: name tables, or all, which it is about", flag));
  }
  if (format == TableFormat::csv || format == TableFormat::markdown) {
    throw UsageError(
        fmt::format("--format: the list of tables comes as table or json; for the numbers in {} "
                    "name tables, or all",
                    flags.format));
  }
}

// Returns the device that --backend asks for. Throws where this machine has none, before any file
// is written: a run would call each of its points unsupported.
Device device_to_run_on(const std::string& backend) {
  const Device device = choose_device(parse_backend(backend, "--backend"));
  if (!device.name.empty()) return device;
  throw std::runtime_error(
      fmt::format("--backend {}: {}. attnlab doctor says what is missing, and "
                  "--backend cpu measures what a CPU can",
                  backend, no_device(device.backend)));
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
  const std::filesystem::path folder = shipped_folder(kPaperFolder);
  const std::vector<PaperFile> papers = read_papers(folder, builtin_registry());
  const PublishedTables published = read_published(folder / "published");
  const bool has_records = !flags.records.empty();
  std::vector<std::string> asked = flags.ids;
  if (asked.empty() && !has_records) {
    if (flags.ae.empty()) {
      refuse_beside_list(flags, format);
      print_list(papers, published, format);
      return kExitGood;
    }
    asked = {"all"};
  }
  const std::vector<Chosen> chosen = flags.ids.empty() && has_records
                                         ? chosen_by_records(papers, flags.records)
                                         : choose_papers(papers, asked, published);
  const Json of_records = has_records ? device_of_records(chosen, flags.records) : Json();
  if (!flags.beside.empty()) return show_two_runs(flags, papers, chosen, published, format);
  if (!flags.ae.empty()) return write_form(flags, chosen, published);
  Job job{.cut = {.quick = flags.quick}, .folder = place_of(flags), .format = format};
  std::string device;
  if (has_records) {
    device = exact(at(of_records, {"name"}));
    job.backend = at(of_records, {"backend"}) == "cuda" ? Backend::cuda : Backend::cpu;
  } else {
    const Device chosen_device = device_to_run_on(flags.backend);
    device = chosen_device.name;
    job.backend = chosen_device.backend;
    job.peaks = known_peaks(chosen_device);
    job.cut.backend = job.backend == Backend::cpu ? BackendChoice::cpu : BackendChoice::cuda;
    if (!flags.devices.empty()) choose_gpus(flags.devices, job.backend);  // refuses before all else
    job.cut.devices = flags.devices;
    job.cut.unsettled = flags.unsettled;
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
  if (flags.check && flags.ids.empty()) check_gone(papers, chosen, published, job.earlier, total);
  if (flags.check && total.checked == 0) {
    throw UsageError(
        fmt::format("--check: {} has no result of what was asked for", job.earlier.string()));
  }
  for (const Worsened& claim : total.worsened) {
    print_to(stdout, "{}", wrap(fmt::format("{}: {}", to_string(claim.how), claim.text)));
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
  add_list(*command, "--devices", flags->devices,
           "One process on each of these GPUs: all, or their numbers")
      ->type_name("all|N,...")
      ->group("Where");
  command->add_flag("--quick", flags->quick, "The part that the file names for a quick look")
      ->group("What");
  command
      ->add_flag("--protocols", flags->protocols,
                 "Measure hot and cold, burst and settled, and show the span of each cell")
      ->group("What");
  command->add_option("--records", flags->records, "Make the tables from this folder; run nothing")
      ->type_name("DIR")
      ->group("What");
  command
      ->add_option("--beside", flags->beside,
                   "With --records: its verdicts and figures beside those of this folder")
      ->type_name("DIR")
      ->group("Judgement");
  command->add_option("--out", flags->out, "Folder of what is written (results/paper-<time>)")
      ->type_name("DIR")
      ->group("Output");
  command
      ->add_flag("--unsettled", flags->unsettled,
                 "With --resume: also again the cases in which a clock did not settle")
      ->group("Output");
  command->add_flag("--resume", flags->resume, "Go on with the records in the folder of --out")
      ->group("Output");
  add_table_format(*command, flags->format);
  add_no_progress(*command, flags->no_progress);
  command->add_option("--ae", flags->ae, "Write what an artifact reviewer fills in; run nothing")
      ->type_name("FILE")
      ->group("Output");
  command->add_flag("--check", flags->check, "Exit code 4 or 3 where verdicts got worse")
      ->group("Judgement");
  command->add_option("--against", flags->against, "Folder of the earlier run for --check")
      ->type_name("DIR")
      ->group("Judgement");
  return {command, [flags] { return run(*flags); }};
}

}  // namespace attnlab
