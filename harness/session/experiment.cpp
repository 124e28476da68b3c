#include "harness/session/experiment.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "harness/base/errors.h"
#include "harness/base/interrupt.h"
#include "harness/base/output.h"
#include "harness/base/strict_json.h"
#include "harness/base/text_file.h"
#include "harness/plan/sweep_file.h"
#include "harness/record/repro.h"
#include "harness/session/own_process.h"

namespace attnlab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCutTo = "; cut to: ";

void write_sweep(const std::filesystem::path& path, const Json& sweep) {
  std::error_code error;  // ignored: writing the file fails with a better message
  std::filesystem::create_directories(path.parent_path(), error);
  replace_text(path, sweep.dump(1) + "\n");
}

// Waits for the end of the child, to which it hands on a Ctrl-C or SIGTERM. Returns its status.
int wait_for(pid_t child) {
  bool handed_on = false;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0) {
      throw std::runtime_error(
          fmt::format("cannot wait for attnlab run: {}", std::strerror(errno)));
    }
    if (const int signal = InterruptWatch::signal(); signal != 0 && !handed_on) {
      kill(child, signal);
      handed_on = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int run_to_end(const std::vector<std::string>& command, const std::string& folder) {
  const InterruptWatch watch;
  const int status = wait_for(start_process({.command = command}));  // its table is not wanted
  const std::string remedy =
      fmt::format("the same command with --out {} --resume goes on", shell_word(folder));
  if (const int signal = InterruptWatch::signal(); signal != 0) {
    print_to(stderr, "attnlab reproduce: interrupted: {}\n", remedy);
    end_by_signal(signal);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) != kNotStarted) return WEXITSTATUS(status);
  const std::string end = WIFEXITED(status) ? "could not be started"
                                            : fmt::format("ended by signal {}", WTERMSIG(status));
  throw std::runtime_error(fmt::format("attnlab run {}: {}", end, remedy));
}

// Returns the path in a form that no parser takes for a flag.
std::string no_flag(const std::filesystem::path& path) {
  const std::string text = path.string();
  return text.starts_with('-') ? "./" + text : text;
}

bool has_records(const std::filesystem::path& records) {
  std::error_code error;
  return std::filesystem::file_size(records, error) > 0 && !error;
}

// Sets the state. A settled sample has a turn of its own, which a burst's max_seconds do not cover.
void set_state(Json& sweep, TimingState state) {
  Json& protocol = sweep["protocol"];
  const bool was_settled = protocol.value("regime", "burst") == to_string(Regime::settled);
  protocol["cache"] = to_string(state.cache);
  protocol["regime"] = to_string(state.regime);
  if (state.regime == Regime::burst) {
    protocol.erase("turn_seconds");
  } else if (!was_settled && !protocol.contains("turn_seconds")) {
    constexpr double kTurn = 0.5;  // at most 15 of them are the rounds of a settled run
    protocol["turn_seconds"] = kTurn;
    protocol["max_seconds"] =
        protocol.value("max_seconds", 15.0) + kTurn * protocol.value("max_rounds", 15);
  }
}

}  // namespace

ExperimentFiles files_of(const PaperFile& paper, const std::filesystem::path& folder,
                         const std::optional<TimingState>& state) {
  const std::string name = state ? fmt::format("{}.{}", paper.name, to_string(*state)) : paper.name;
  return {.sweep = folder / (name + ".sweep.json"),
          .records = folder / (name + ".jsonl"),
          .result = folder / (paper.name + ".result.json")};
}

TimingState own_state(const PaperFile& paper) {
  const Sweep sweep = read_sweep(paper.sweep, paper.path.string(), builtin_registry());
  return {.cache = sweep.protocol.cache.value_or(CacheState::hot),
          .regime = sweep.protocol.regime.value_or(Regime::burst)};
}

Json sweep_to_run(const PaperFile& paper, const ExperimentCut& cut) {
  const Registry& registry = builtin_registry();
  const std::string where = paper.path.string();
  Json sweep = paper.sweep;
  SweepCut all;
  const auto apply = [&](const SweepCut& part) {
    sweep = cut_sweep(std::move(sweep), part, where, registry);
    all = joined(all, part, registry);
  };
  const bool on_cpu = cut.backend == BackendChoice::cpu;
  if (on_cpu && !paper.has_cpu) {
    throw UsageError(
        fmt::format("{}: has no cut for a CPU: it needs a GPU (--backend cuda)", where));
  }
  if (on_cpu) apply(paper.cpu);
  if (cut.quick && paper.has_quick) apply(paper.quick);
  if (cut.state) set_state(sweep, *cut.state);
  sweep["backend"] = on_cpu ? "cpu" : "cuda";
  const std::string words = describe(all);
  if (!words.empty()) sweep["description"] = paper.title + kCutTo + words;
  return sweep;
}

std::string cut_of(const ExperimentFiles& files) {
  if (!std::filesystem::exists(files.sweep)) return "";
  const Json sweep = read_json_file(files.sweep);
  const bool has_words = sweep.is_object() && sweep.contains("description");
  const std::string text =
      has_words ? read_string(sweep["description"], files.sweep.string() + ": description") : "";
  const std::size_t at = text.find(kCutTo);
  return at == std::string::npos ? "" : text.substr(at + std::strlen(kCutTo));
}

std::vector<std::string> run_command(const ExperimentCut& cut, const ExperimentFiles& files,
                                     bool resumes, bool shows_progress) {
  std::vector<std::string> command = {"attnlab",  "run", no_flag(files.sweep),
                                      "--format", "csv", "--no-hints"};
  if (!cut.devices.empty()) command.push_back("--devices=" + cut.devices);
  // The records of several GPUs lie in parts until each has ended.
  const bool may_have_parts = resumes && !cut.devices.empty();
  const bool goes_on = has_records(files.records) || may_have_parts;
  command.emplace_back(goes_on ? "--resume" : "--out");
  command.push_back(no_flag(files.records));
  if (goes_on && cut.unsettled) command.emplace_back("--unsettled");
  if (!shows_progress) command.emplace_back("--no-progress");
  return command;
}

int run_experiment(const PaperFile& paper, const ExperimentCut& cut, const ExperimentFiles& files,
                   bool resumes, bool shows_progress) {
  const Json sweep = sweep_to_run(paper, cut);
  const bool has_some = has_records(files.records);
  if (has_some && !resumes) {
    throw UsageError(
        fmt::format("--out: {} has records already: --resume goes on with them, or name "
                    "another folder",
                    files.records.string()));
  }
  const bool is_same =
      std::filesystem::exists(files.sweep) && read_text(files.sweep) == sweep.dump(1) + "\n";
  if (has_some && !is_same) {
    throw UsageError(
        fmt::format("--resume: {} is not the sweep that would run now: give the same "
                    "--backend and --quick, or name another folder",
                    files.sweep.string()));
  }
  if (!is_same) write_sweep(files.sweep, sweep);
  return run_to_end(run_command(cut, files, resumes, shows_progress),
                    files.records.parent_path().string());
}

}  // namespace attnlab
